import { EXIT, type ExitCode } from '../exit-codes.ts'
import { decideDrift } from './decide.ts'
import { findingLine } from './ensure.ts'
import { type EnsureContext, observe } from './observe.ts'

/** `--check`: changes nothing; one line per point that is not met. */
export async function checkCommand(ctx: EnsureContext, node?: string): Promise<ExitCode> {
  const drift = decideDrift(await observe(ctx, node))
  for (const f of drift) console.log(findingLine(f))
  return drift.length === 0 ? EXIT.OK : EXIT.UNHEALTHY
}

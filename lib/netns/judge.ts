import type { Look, Verdict } from '../base/types.ts'
import { HEALTHY, verdict } from '../report/verdict.ts'

/** What a look at a named namespace means: one judgement for everybody who looks. Pure. */
export function judgeNetns(
  netns: string,
  look: Look<{ readonly exists: boolean; readonly isNamespace: boolean }>,
): Verdict {
  if (!look.seen) return verdict('netns-unseen', [], { why: look.why })
  if (look.value.isNamespace) return HEALTHY
  const evidence = look.value.exists ? [`/run/netns/${netns} is there and is no namespace`] : []
  return verdict('netns-missing', evidence, { netns })
}

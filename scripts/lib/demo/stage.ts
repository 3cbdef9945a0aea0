import { performance } from 'node:perf_hooks'

/** One act of the story as the closing screen shows it. */
interface Act {
  readonly title: string
  readonly seconds: number
  readonly proof: string
}

const played: Act[] = []
const started = performance.now()

export const elapsed = (): string => `${((performance.now() - started) / 1000).toFixed(1).padStart(6)} s`

export function say(line: string): void {
  process.stdout.write(`${elapsed()}  ${line}\n`)
}

/**
 * Plays one act. `play` returns the line that proves it, from the journal or the product's own words, or
 * throws, which ends the story with its error and exit status 1.
 */
export async function act(
  title: string,
  play: () => Promise<{ seconds?: number; proof: string }>,
): Promise<void> {
  say(title)
  const begun = performance.now()
  const { seconds, proof } = await play()
  played.push({ title, seconds: seconds ?? (performance.now() - begun) / 1000, proof })
  say(`  → ${proof}`)
}

/** The closing screen: each act, what it took, and its proof. */
export function curtain(): void {
  process.stdout.write('\n')
  for (const { title, seconds, proof } of played)
    process.stdout.write(`${seconds.toFixed(1).padStart(6)} s  ${title}\n          ${proof}\n`)
  process.stdout.write(
    `\n${played.length} acts in ${elapsed().trim()}; every proof above is from the lab's own journal or programs.\n`,
  )
}

import { reportAndExit } from '../base/errors.ts'
import { type Paths, paths } from '../base/paths.ts'

/**
 * Runs an executable: its arguments in, its exit status out, an error as one line on stderr with the status it
 * stands for.
 * @param command gets the arguments only, and resolves with the exit status
 */
export function main(name: string, command: (p: Paths, argv: readonly string[]) => Promise<number>): void {
  command(paths(), process.argv.slice(2)).then(
    (status) => {
      process.exitCode = status
    },
    (error) => reportAndExit(error, name),
  )
}

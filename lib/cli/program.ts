import { UsageError } from '../base/errors.ts'
import { outliveReader } from './cli.ts'
import { type Described, epilogue } from './help.ts'

/**
 * A commander program whose help ends with exit statuses and examples, and whose mistakes come out as our own
 * errors, with exit code 64. Commands added to it inherit that. `--help` ends the process with 0.
 */
export async function program(name: Described, description: string) {
  outliveReader()
  const { Command } = await import('commander')
  return new Command(name)
    .description(description)
    .addHelpText('after', epilogue(name))
    .configureOutput({ writeErr: () => {} })
    .exitOverride((error) => {
      if (error.exitCode === 0) process.exit(0)
      const help = `${name} --help`
      // A group of commands alone prints its help on stderr, which is silenced above.
      throw new UsageError(
        error.code === 'commander.help' ? 'which command?' : error.message.replace(/^error: |\.$/g, ''),
        help,
      )
    })
}

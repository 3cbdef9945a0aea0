import { misused, outliveReader } from './cli.ts'
import { examples } from './examples.ts'

/** A commander program whose mistakes come out as our own errors, with exit code 64. */
export async function program(name: Parameters<typeof examples>[0], description: string) {
  outliveReader()
  const { Command } = await import('commander')
  const command = new Command(name)
    .description(description)
    .addHelpText('after', examples(name))
    .showHelpAfterError(false)
  command.configureOutput({ writeErr: () => {} }).exitOverride((error) => {
    if (error.exitCode === 0) process.exit(0)
    throw misused(error, `${name} --help`)
  })
  return command
}

import { reportAndExit } from '../lib/base/errors.ts'
import { main } from '../lib/supervisors/chromebox-watchdog/main.ts'

main(process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code
  },
  (err: unknown) => reportAndExit(err, 'chromebox-watchdog'),
)

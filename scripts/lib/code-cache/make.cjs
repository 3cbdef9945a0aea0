// Makes the code cache of one bundle: runs a rehearsal, so that the cache holds what a real run compiles.
//   node make.cjs BUNDLE.cjs CACHE NAME
'use strict'
const { readFileSync, writeFileSync } = require('node:fs')
const { setFlagsFromString } = require('node:v8')
const { Script } = require('node:vm')
const { rehearsals } = require('./rehearsals.cjs')

// The processes of a rehearsal do not exist, and their pids may belong to others.
process.kill = (pid) => {
  throw new Error(`a rehearsal must not signal pid ${pid}`)
}

const [, , bundle, cache, name] = process.argv
const script = new Script(readFileSync(bundle, 'latin1'), { filename: bundle })
const run = script.runInThisContext()
const acts = rehearsals(name)

/** Reports on stderr what is wrong with the rehearsal that has just ended. */
function judge(act) {
  const problem = (process.exitCode ?? 0) === act.exit ? act.check() : `exit code ${process.exitCode} (${act.check() ?? "its result is right"})`
  if (problem !== undefined) {
    process.stderr.write(`code cache of ${name}: the rehearsal \`${act.argv.join(' ')}\` went wrong: ${problem}\n`)
  }
  return problem === undefined
}

function next(act) {
  const following = acts.shift()
  process.argv = [process.execPath, name, ...act.argv]
  Object.assign(process.env, act.env)
  process.exitCode = 0
  const last = () => {
    if (!judge(act)) process.exitCode = 1
    else {
      // As in the launcher: V8 accepts a cache only under the flags it was made with.
      setFlagsFromString('--verify-snapshot-checksum')
      writeFileSync(cache, script.createCachedData())
    }
  }
  // The last one may end the process; those before it must finish.
  if (following === undefined) process.prependOnceListener('exit', last)
  else process.once('beforeExit', () => (judge(act) ? next(following) : process.exit(1)))
  run(require, module, {}, bundle, __dirname)
}
next(acts.shift())

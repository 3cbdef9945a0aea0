#!/usr/bin/env node
// Runs one executable's bundle through V8's code cache. Parsing and compiling 200 KB of JavaScript is a quarter of a
// healthy tick's CPU; the cache holds the compiled code of what such a run uses. V8 refuses a cache of another Node
// or another machine by itself and then compiles as ever. It compares no more of the bundle than its length, so the
// two files carry one hash in their names and never meet another's.
'use strict'
const { readFileSync } = require('node:fs')
const { setFlagsFromString } = require('node:v8')
const { Script } = require('node:vm')

const code = `${__dirname}/code/@NAME@-@HASH@`
let cachedData
let run
try {
  cachedData = readFileSync(`${code}.cache`)
} catch {
  // Only slower without.
}
try {
  // The bundle is plain ASCII, and one byte a character is the fastest string there is.
  const source = readFileSync(`${code}.cjs`, 'latin1')
  // By itself this V8 believes the bytes of a cache: one page that a power loss left zeroed ends Node with a signal.
  // Only for this one, because Node's own modules have caches too, made without the flag.
  setFlagsFromString('--verify-snapshot-checksum')
  const script = new Script(source, { filename: `${code}.cjs`, cachedData })
  setFlagsFromString('--no-verify-snapshot-checksum')
  run = script.runInThisContext()
  if (typeof run !== 'function') throw new Error('it is empty')
} catch (error) {
  // Node would end with 1, "unhealthy", of a node that nobody has looked at.
  const why = error.code === 'ENOENT' ? 'is missing' : (error.code ?? `is damaged (${error.message})`)
  const mend = `put it back with scripts/build and scripts/install; next: ls -la ${__dirname}/code`
  process.stderr.write(`@NAME@: nothing was looked at: its program ${code}.cjs ${why}: ${mend}\n`)
  process.exit(2)
}
run(require, module, exports, __filename, __dirname)

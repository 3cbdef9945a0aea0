#!/usr/bin/env node
// Runs one executable's bundle through V8's code cache. Parsing and compiling 200 KB of JavaScript is a quarter of a
// healthy tick's CPU; the cache holds the compiled code of what such a run uses. V8 refuses a cache
// of another Node or another machine and then compiles as usual. It compares only the length of the bundle, so the
// names of the two files carry the same hash and are never mixed with another build's.
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
  // Without it the run is only slower.
}
try {
  // The bundle is plain ASCII, and a string of one byte per character is the fastest.
  const source = readFileSync(`${code}.cjs`, 'latin1')
  // This V8 does not verify a cache by default: one page zeroed by a power loss ends Node with a signal.
  // Only for this script: the caches of Node's own modules were made without the flag.
  setFlagsFromString('--verify-snapshot-checksum')
  const script = new Script(source, { filename: `${code}.cjs`, cachedData })
  setFlagsFromString('--no-verify-snapshot-checksum')
  run = script.runInThisContext()
  if (typeof run !== 'function') throw new Error('it is empty')
} catch (error) {
  // Node would exit with 1, "unhealthy", although the node was not checked.
  const why = error.code === 'ENOENT' ? 'is missing' : (error.code ?? `is damaged (${error.message})`)
  const next = `put it back with scripts/build and scripts/install; next: ls -la ${__dirname}/code`
  process.stderr.write(`@NAME@: nothing was looked at: its program ${code}.cjs ${why}: ${next}\n`)
  process.exit(2)
}
run(require, module, exports, __filename, __dirname)

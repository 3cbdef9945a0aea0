/** What the tests inside the lab share. */
export * from './lab/journal.ts'
export * from './lab/nodes.ts'
export * from './lab/run.ts'
export * from './unit.ts'

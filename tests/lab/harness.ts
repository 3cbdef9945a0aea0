/** What the tests inside the lab share. */
export * from './harness/journal.ts'
export * from './harness/nodes.ts'
export * from './harness/run.ts'

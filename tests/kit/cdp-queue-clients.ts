import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { until } from './until.ts'

// Clients of the queue in three languages. Each takes a slot of `node` `rounds` times, and writes `in` and
// `out` to the audit file while it holds the lock, so that the order of the lines is the order of events.

const SLOT = new URL('../../lib/queue/slot.ts', import.meta.url).pathname

const NODE = `
import { appendFileSync, existsSync } from 'node:fs'
import { withCdpSlot } from ${JSON.stringify(SLOT)}
const begin = async (audit) => {
  appendFileSync(audit + '.ready', 'x')
  while (!existsSync(audit + '.go')) await new Promise((r) => setTimeout(r, 3))
}
const [node, rounds, audit] = process.argv.slice(1)
await begin(audit)
for (let i = 0; i < Number(rounds); i++) {
  await withCdpSlot(node, { timeoutMs: 600000 }, async () => {
    appendFileSync(audit, 'in node\\n')
    await new Promise((r) => setTimeout(r, 1))
    appendFileSync(audit, 'out node\\n')
  })
}`

const BASH = `
dir=$1 rounds=$2 audit=$3
printf x >> "$audit.ready"
until [ -e "$audit.go" ]; do sleep 0.003; done
for ((i = 0; i < rounds; i++)); do
  until for s in 0 1; do exec 9>"$dir/slot-$s.lock"; flock -n 9 && break; done; do sleep 0.003; done
  echo 'in bash' >> "$audit"
  echo 'out bash' >> "$audit"
  exec 9>&-
done`

const PYTHON = `
import fcntl, os, sys, time
d, rounds, audit = sys.argv[1], int(sys.argv[2]), sys.argv[3]
open(audit + ".ready", "a").write("x")
while not os.path.exists(audit + ".go"):
    time.sleep(0.003)
log = os.open(audit, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
def take():
    while True:
        for s in (0, 1):
            f = open(f"{d}/slot-{s}.lock", "a")
            try:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return f
            except BlockingIOError:
                f.close()
        time.sleep(0.003)
for i in range(rounds):
    f = take()
    os.write(log, b"in python\\n")
    time.sleep(0.001)
    os.write(log, b"out python\\n")
    f.close()`

export type Language = 'node' | 'bash' | 'python'

export interface World {
  /** NETVM_ROOT of the clients. */
  readonly root: string
  readonly queue: string
  readonly audit: string
}

/** Starts one contender; resolves with its exit code. */
export function contend(w: World, language: Language, rounds: number): Promise<number | null> {
  const dir = `${w.queue}/stress`
  const argv: Record<Language, string[]> = {
    node: [process.execPath, '--import', 'tsx', '--input-type=module', '-e', NODE, 'stress'],
    bash: ['bash', '-c', BASH, 'bash', dir],
    python: ['python3', '-S', '-c', PYTHON, dir],
  }
  const [program = '', ...args] = [...argv[language], String(rounds), w.audit]
  const child: ChildProcess = spawn(program, args, {
    env: { ...process.env, NETVM_ROOT: w.root },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  return new Promise((resolve) => child.on('close', resolve))
}

/** Lets the contenders begin once all of them are there: they meet however long each takes to start. */
export async function begin(w: World, contenders: number): Promise<void> {
  const ready = `${w.audit}.ready`
  await until('all are there', () => existsSync(ready) && readFileSync(ready).length === contenders)
  writeFileSync(`${w.audit}.go`, '')
}

export interface Audit {
  /** Rounds that went in and came out again, per client. */
  readonly rounds: Readonly<Record<string, number>>
  /** The most that were inside at one moment. */
  readonly most: number
}

export function readAudit(path: string): Audit {
  let inside = 0
  let most = 0
  const rounds: Record<string, number> = {}
  for (const line of readFileSync(path, 'utf8').trimEnd().split('\n')) {
    const [what, who = ''] = line.split(' ')
    inside += what === 'in' ? 1 : -1
    most = Math.max(most, inside)
    if (what === 'out') rounds[who] = (rounds[who] ?? 0) + 1
  }
  return { rounds, most }
}

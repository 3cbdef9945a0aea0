import { mkdirSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { dirname } from 'node:path'
import type { TestContext } from 'node:test'

/** A unit as a stand-in for systemd has it: in the list with these three states, and with these properties. */
export interface FakeUnit {
  readonly listed?: readonly [load: string, active: string, sub: string]
  readonly [property: string]: unknown
}

const u32 = (n: number): Buffer => {
  const b = Buffer.alloc(4)
  b.writeUInt32LE(n)
  return b
}
const u64 = (n: bigint): Buffer => {
  const b = Buffer.alloc(8)
  b.writeBigUInt64LE(n)
  return b
}
const fill = (b: Buffer, size: number): Buffer =>
  Buffer.concat([b, Buffer.alloc((size - (b.length % size)) % size)])
const str = (s: string): Buffer => Buffer.concat([u32(Buffer.byteLength(s)), Buffer.from(`${s}\0`)])
const join = (size: number, parts: readonly Buffer[]): Buffer =>
  parts.reduce((all, part) => Buffer.concat([fill(all, size), part]), Buffer.alloc(0))

/** A variant: text, a boolean, a bigint for an unsigned number of 64 bits, a number for a signed one of 32. */
export function variant(v: unknown): Buffer {
  const [type, size, value] =
    typeof v === 'string'
      ? ['s', 4, str(v)]
      : typeof v === 'boolean'
        ? ['b', 4, u32(v ? 1 : 0)]
        : typeof v === 'bigint'
          ? ['t', 8, u64(v)]
          : ['i', 4, u32(Number(v) >>> 0)]
  return Buffer.concat([fill(Buffer.from(`\x01${type}\0`), size as number), value as Buffer])
}

/** One message to us: 2 is an answer, 3 an error, 4 a signal that nobody asked for. */
export function message(type: 2 | 3 | 4, replyTo: number, signature: string, body: Buffer): Buffer {
  const fields = join(8, [
    Buffer.concat([Buffer.from('\x05\x01u\0'), u32(replyTo)]),
    Buffer.concat([Buffer.from('\x06\x01s\0'), str(':1.7')]),
    Buffer.from(`\x08\x01g\0${String.fromCharCode(signature.length)}${signature}\0`),
  ])
  const head = Buffer.concat([Buffer.from(['l'.charCodeAt(0), type, 1, 1]), u32(body.length), u32(99)])
  return Buffer.concat([fill(Buffer.concat([head, u32(fields.length), fields]), 8), body])
}

const listing = (units: Readonly<Record<string, FakeUnit>>): Buffer => {
  const rows = Object.entries(units).flatMap(([unit, { listed }]) => {
    if (listed === undefined) return []
    return [join(4, [...[unit, 'what', ...listed, '', '/u'].map(str), u32(0), str(''), str('/')])]
  })
  const list = join(8, rows)
  return Buffer.concat([fill(u32(list.length), 8), list])
}

/** What a call says, read from its bytes. @throws RangeError when a text is not where its length says */
function readCall(raw: Buffer) {
  const said = raw.toString('latin1')
  const lists = said.includes('\x04asas\0')
  const body = raw.subarray(raw.length - raw.readUInt32LE(4))
  const texts: string[] = []
  // Of two lists the first is empty; behind the length of the second its texts follow as arguments would.
  for (let at = lists ? 8 : 0; at < body.length; ) {
    at = Math.ceil(at / 4) * 4
    const end = at + 4 + body.readUInt32LE(at)
    if (body.readUInt8(end) !== 0) throw new RangeError(`no text at ${at}`)
    texts.push(body.toString('latin1', at + 4, end))
    at = end + 1
  }
  const unit = /\/unit\/(\w+)/.exec(said)?.[1]?.replace(/_([0-9a-f]{2})/g, (_, hex) => {
    return String.fromCharCode(Number.parseInt(hex, 16))
  })
  const member = /(Hello|ListUnitsByPatterns|Get)\0/.exec(said)?.[1]
  return { serial: raw.readUInt32LE(8), member, unit, texts }
}

/**
 * A socket on which a stand-in for systemd, or for the bus before it, answers.
 * @returns what it was asked, as `Hello` and `chromebox@muse.service Result`, and what came in one go, and how much of it at most
 */
export async function fakeBus(
  t: TestContext,
  path: string,
  units: Readonly<Record<string, FakeUnit>>,
): Promise<{ readonly asked: string[]; readonly bursts: () => string[][]; readonly most: () => number }> {
  const asked: string[] = []
  const bursts: string[][] = []
  const serve = (socket: Socket) => {
    let come = Buffer.alloc(0)
    let known = false
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      come = Buffer.concat([come, chunk])
      const begin = come.indexOf('BEGIN\r\n')
      if (!known && begin < 0) return
      if (!known) {
        come = come.subarray(begin + 7)
        known = true
        socket.write('DATA\r\nOK 0123456789abcdef\r\n')
        socket.write(message(4, 0, 's', str(':1.9')))
      }
      const answers: Buffer[] = []
      const before = asked.length
      while (come.length >= 16) {
        const end = Math.ceil((16 + come.readUInt32LE(12)) / 8) * 8 + come.readUInt32LE(4)
        if (come.length < end) break
        const { serial, member, unit, texts } = readCall(come.subarray(0, end))
        come = come.subarray(end)
        const property = texts.at(-1) ?? ''
        asked.push(member === 'Get' ? `${unit} ${property}` : [member, ...texts].join(' '))
        const value = units[unit ?? '']?.[property]
        if (member === 'ListUnitsByPatterns')
          answers.push(message(2, serial, 'a(ssssssouso)', listing(units)))
        else if (member === 'Hello') answers.push(message(2, serial, 's', str(':1.9')))
        else if (value === undefined) answers.push(message(3, serial, 's', str(`no ${unit} ${property}`)))
        else answers.push(message(2, serial, 'v', variant(value)))
      }
      if (answers.length > 0) bursts.push(asked.slice(before))
      if (answers.length > 0) socket.write(Buffer.concat(answers))
    })
  }
  mkdirSync(dirname(path), { recursive: true })
  const server = createServer(serve)
  await new Promise<void>((resolve) => server.listen(path, resolve))
  t.after(() => server.close())
  return { asked, bursts: () => bursts, most: () => Math.max(...bursts.map((b) => b.length)) }
}

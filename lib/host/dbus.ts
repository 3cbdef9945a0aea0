import net from 'node:net'
import { clean } from '../base/text.ts'

// As much of D-Bus as it takes to ask systemd. `systemctl show` has all properties of a unit sent to print a few, 1.6 ms
// a unit, most of it in PID 1; one that is asked for by its name is answered in a twentieth, and a fleet has a thousand
// units. Numbers are little-endian, and every value begins at a multiple of its size (D-Bus specification).

/** Calls on their way at which no more are made: the system bus refuses a connection's 129th without an answer. */
const AT_ONCE = 100
/** Who we are is what the socket says: in a user namespace we do not know our own uid. Nothing waits for the answer. */
const AUTH = '\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n'
const [RETURN, ERROR] = [2, 3]
const REPLY_SERIAL = 5

export interface BusCall {
  readonly to: string
  readonly path: string
  readonly iface: string
  readonly member: string
  /** Strings, or lists of strings. */
  readonly args: readonly (string | readonly string[])[]
}

/**
 * Makes calls, beside any number of others, and these one right after the other: what is asked of one thing is then true
 * of one moment, as good as. @returns what each returned, to be read in order
 */
export type Ask = (calls: readonly BusCall[]) => Promise<Values[]>

const u32 = (n: number): string => String.fromCharCode(n & 255, (n >>> 8) & 255, (n >>> 16) & 255, n >>> 24)
const pad = (s: string, size: number): string => s + '\0'.repeat(-s.length & (size - 1))
const text = (s: string): string => `${u32(s.length)}${s}\0`

/** A call as it goes over the wire, one character a byte. Everything in it is ASCII: the names of units are. */
export function encode(call: BusCall, serial: number): string {
  const { to, path, iface, member, args } = call
  const signature = args.map((a) => (typeof a === 'string' ? 's' : 'as')).join('')
  let body = ''
  for (const a of args) {
    body = pad(body, 4)
    if (typeof a === 'string') body += text(a)
    else {
      const list = a.reduce((out, s) => pad(out, 4) + text(s), '')
      body += u32(list.length) + list
    }
  }
  let fields = `\x08\x01g\0${String.fromCharCode(signature.length)}${signature}\0`
  for (const [code, type, value] of [
    ['\x01', 'o', path],
    ['\x02', 's', iface],
    ['\x03', 's', member],
    ['\x06', 's', to],
  ] as const)
    fields = `${pad(fields, 8)}${code}\x01${type}\0${text(value)}`
  return pad(`l\x01\0\x01${u32(body.length)}${u32(serial)}${u32(fields.length)}${fields}`, 8) + body
}

/** Reads values one after the other. @throws RangeError beyond the end */
export class Values {
  private at = 0
  private readonly b: Buffer

  constructor(b: Buffer) {
    this.b = b
  }
  get more(): boolean {
    return this.at < this.b.length
  }
  align(size: number): this {
    this.at += -this.at & (size - 1)
    return this
  }
  byte(): number {
    return this.b.readUInt8(this.at++)
  }
  number(): number {
    this.at = this.align(4).at + 4
    return this.b.readUInt32LE(this.at - 4)
  }
  string(length = this.number()): string {
    const s = this.b.toString('utf8', this.at, this.at + length)
    this.at += length + 1
    return s
  }
  variant(): string | number {
    const type = this.string(this.byte())
    if (type === 's' || type === 'o') return this.string()
    if (type === 'g') return this.string(this.byte())
    if (type === 'b') return this.number() === 0 ? 'no' : 'yes'
    if (type === 'u') return this.number()
    if (type === 'i') return this.number() | 0
    if (type !== 't') throw new RangeError(`a value of type ${type}`)
    const low = this.align(8).number()
    return low + this.number() * 2 ** 32
  }
}

interface Message {
  readonly type: number
  readonly replyTo: number
  readonly body: Values
}

/** The whole messages at the beginning of what was received, and the rest. @throws RangeError when it is no D-Bus */
export function decode(received: Buffer): { readonly messages: readonly Message[]; readonly rest: Buffer } {
  const messages: Message[] = []
  let rest = received
  while (rest.length >= 16) {
    if (rest[0] !== 0x6c) throw new RangeError('not little-endian')
    const head = 16 + rest.readUInt32LE(12)
    const bodyAt = head + (-head & 7)
    const end = bodyAt + rest.readUInt32LE(4)
    if (rest.length < end) break
    const fields = new Values(rest.subarray(16, head))
    let replyTo = 0
    while (fields.more) {
      const code = fields.align(8).byte()
      const value = fields.variant()
      if (code === REPLY_SERIAL) replyTo = Number(value)
    }
    messages.push({ type: rest[1] ?? 0, replyTo, body: new Values(rest.subarray(bodyAt, end)) })
    rest = rest.subarray(end)
  }
  return { messages, rest }
}

/**
 * Asks whoever listens on a socket. An error that is the answer to one call is the end of all of them.
 * @throws Error saying why there is no answer
 */
export function talk<T>(
  socketPath: string,
  deadlineMs: number,
  questions: (ask: Ask) => Promise<T>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(socketPath)
    const end = (settle: () => void) => {
      clearTimeout(timer)
      socket.destroy()
      settle()
    }
    const fail = (why: string) => end(() => reject(new Error(clean(why, 160))))
    // What arrived while we were busy is read first.
    const timer = setTimeout(
      () => setImmediate(fail, `no answer in ${Math.round(deadlineMs)} ms`),
      deadlineMs,
    )
    const queue: (readonly { readonly call: BusCall; readonly settle: (v: Values) => void }[])[] = []
    const waiting = new Map<number, (v: Values) => void>()
    let serial = 0
    const send = () => {
      let out = ''
      while (waiting.size < AT_ONCE) {
        const next = queue.shift()
        if (next === undefined) break
        for (const { call, settle } of next) {
          waiting.set(++serial, settle)
          out += encode(call, serial)
        }
      }
      if (out !== '') socket.write(out, 'latin1')
    }
    let received: Buffer = Buffer.alloc(0)
    let known = false
    const read = (chunk: Buffer) => {
      received = Buffer.concat([received, chunk])
      if (!known) {
        const said = /^(?:DATA\r\n)?(OK|REJECTED|ERROR)[^\n]*\n/.exec(received.toString('latin1', 0, 256))
        if (said === null) return
        if (said[1] !== 'OK') throw new Error('the bus refuses us')
        known = true
        received = received.subarray(said[0].length)
      }
      const { messages, rest } = decode(received)
      received = rest
      for (const { type, replyTo, body } of messages) {
        if (type === ERROR) throw new Error(body.more ? body.string() : 'a call was refused')
        if (type === RETURN) waiting.get(replyTo)?.(body)
        waiting.delete(replyTo)
      }
      send()
    }
    socket.on('data', (chunk) => {
      try {
        read(chunk)
      } catch (err) {
        fail((err as Error).message)
      }
    })
    socket.on('error', (err) => fail(err.message))
    socket.on('close', () => fail('the connection was closed'))
    socket.write(AUTH, 'latin1')
    const ask: Ask = (calls) => {
      const made: { call: BusCall; settle: (v: Values) => void }[] = []
      const answers = calls.map((call) => new Promise<Values>((settle) => made.push({ call, settle })))
      queue.push(made)
      send()
      return Promise.all(answers)
    }
    questions(ask).then(
      (value) => end(() => resolve(value)),
      (err: Error) => fail(err.message),
    )
  })
}

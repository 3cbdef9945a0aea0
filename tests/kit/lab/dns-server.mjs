// A name server for one zone: A and AAAA for every name below `lab`, NXDOMAIN for the rest.
//   node dns-server.mjs <IPv4 of every name> <IPv6 of every name> <listen address>… (port 53)
import { createSocket } from 'node:dgram'
import { isIPv6 } from 'node:net'

const [v4 = '', v6 = '', ...listen] = process.argv.slice(2)
const A = Buffer.from(v4.split('.').map(Number))

/** 16 bytes of an IPv6 address that has one `::`. */
function bytesOf(address) {
  const [head = '', tail = ''] = address.split('::')
  const words = (text) => (text === '' ? [] : text.split(':').map((word) => Number.parseInt(word, 16)))
  const [left, right] = [words(head), words(tail)]
  const all = [...left, ...Array(8 - left.length - right.length).fill(0), ...right]
  return Buffer.from(all.flatMap((word) => [word >> 8, word & 255]))
}
const AAAA = bytesOf(v6)

function answer(query) {
  let at = 12
  const labels = []
  while (query[at] > 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + query[at]))
    at += query[at] + 1
  }
  const question = query.subarray(12, at + 5)
  const type = query.readUInt16BE(at + 1)
  const known = labels.at(-1)?.toLowerCase() === 'lab'
  const data = !known ? undefined : type === 1 ? A : type === 28 ? AAAA : undefined
  const head = Buffer.from(query.subarray(0, 12))
  // Response, recursion available; the code is 3 (no such name) outside the zone.
  head.writeUInt16BE(0x8180 | (known ? 0 : 3), 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt16BE(data ? 1 : 0, 6)
  head.writeUInt32BE(0, 8)
  if (!data) return Buffer.concat([head, question])
  const record = Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 1, 0, data.length])
  return Buffer.concat([head, question, record, data])
}

for (const address of listen) {
  const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4')
  socket.on('message', (query, from) => {
    if (query.length > 16) socket.send(answer(query), from.port, from.address)
  })
  socket.bind(53, address)
}

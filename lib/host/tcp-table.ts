/** A listening TCP socket. */
export interface Listener {
  /** IPv4 or IPv6 text; `0.0.0.0` and `::` for any. */
  readonly address: string
  readonly port: number
  /** The kernel's number of the socket, the same in `/proc/<pid>/fd` of every process that holds it. */
  readonly inode: number
}

/** TCP_LISTEN of include/net/tcp_states.h, as the table prints it. */
const LISTEN = '0A'
/** `::ffff:0:0/96`, the IPv4 addresses of an IPv6 socket. */
const MAPPED = '0000000000000000FFFF0000'

/** Parses the table of `/proc/<pid>/net/tcp` or `tcp6`; only listening sockets are returned. */
export function parseTcpTable(table: string): Listener[] {
  const rows: Listener[] = []
  for (const line of table.split('\n')) {
    const fields = line.trim().split(/\s+/)
    const [address, port] = (fields[1] ?? '').split(':')
    if (fields[3] !== LISTEN || address === undefined || port === undefined) continue
    const inode = Number(fields[9])
    if (!/^([0-9A-F]{8}|[0-9A-F]{32})$/.test(address) || !Number.isInteger(inode)) continue
    rows.push({ address: decodeAddress(address), port: Number.parseInt(port, 16), inode })
  }
  return rows
}

/** Hex of the kernel's table, in 32-bit words of the machine's byte order (little-endian wherever we run). */
function decodeAddress(hex: string): string {
  const bytes = Buffer.from(hex, 'hex').swap32()
  if (bytes.length === 4) return bytes.join('.')
  if (hex.startsWith(MAPPED)) return `::ffff:${bytes.subarray(12).join('.')}`
  const groups = [0, 2, 4, 6, 8, 10, 12, 14].map((at) => bytes.readUInt16BE(at).toString(16))
  // The URL standard serializes IPv6 as RFC 5952 does: the longest run of zero groups becomes `::`.
  return new URL(`http://[${groups.join(':')}]`).hostname.slice(1, -1)
}

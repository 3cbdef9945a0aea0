export type Priority = 'high' | 'normal' | 'low'

export const PRIORITIES: readonly Priority[] = ['high', 'normal', 'low']

/**
 * How much later than a `high` of the same moment a waiter counts as having come, in microseconds. So a
 * `high` passes every `low` that came less than 30 s before it and none that waited longer: nobody starves,
 * and within one priority it is first come, first served. Below the usual timeout of 60 s.
 */
const HANDICAP_US: Readonly<Record<Priority, number>> = { high: 0, normal: 15_000_000, low: 30_000_000 }

/** One waiter's place in the queue, as its file name says it. */
export interface Ticket {
  readonly name: string
  readonly priority: Priority
  /** CLOCK_MONOTONIC in microseconds: the same clock in every process of this boot. */
  readonly arrivedUs: number
  readonly pid: number
}

export function isPriority(v: unknown): v is Priority {
  return PRIORITIES.includes(v as Priority)
}

/**
 * The file name of a ticket. Names sort in the order of service, so the order is fixed at arrival and is
 * the same for everybody who lists the directory.
 *
 * @param unique differs between two waiters of one process
 */
export function ticketName(priority: Priority, arrivedUs: number, pid: number, unique: string): string {
  const key = String(Math.round(arrivedUs) + HANDICAP_US[priority]).padStart(17, '0')
  return `ticket-${key}-${priority}-${Math.round(arrivedUs)}-${pid}-${unique}`
}

const TICKET = /^ticket-(\d{17})-(high|normal|low)-(\d{1,16})-(\d{1,10})-[a-z0-9]{1,32}$/

/** Reads a file name; undefined for anything that is no ticket, or whose place was not earned. */
export function parseTicket(name: string): Ticket | undefined {
  const m = TICKET.exec(name)
  if (!m || !isPriority(m[2])) return undefined
  const arrivedUs = Number(m[3])
  if (Number(m[1]) !== arrivedUs + HANDICAP_US[m[2]]) return undefined
  return { name, priority: m[2], arrivedUs, pid: Number(m[4]) }
}

/** The tickets among the names of a directory, in the order of service. */
export function sortTickets(names: readonly string[]): Ticket[] {
  const tickets = names.map(parseTicket).filter((t) => t !== undefined)
  return tickets.sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** The waiter right before `mine`; undefined when `mine` is at the head. */
export function predecessor(tickets: readonly Ticket[], mine: string): Ticket | undefined {
  return tickets.filter((t) => t.name < mine).at(-1)
}

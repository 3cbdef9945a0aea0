import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import {
  isPriority,
  type Priority,
  parseTicket,
  predecessor,
  sortTickets,
  ticketName,
} from '../../lib/queue/ticket.ts'

const s = 1_000_000
const t = (priority: Priority, atS: number, pid = 1) => ticketName(priority, atS * s, pid, 'a')
const order = (...names: string[]) => sortTickets(names).map((x) => `${x.priority}@${x.arrivedUs / s}`)

describe('queue tickets', () => {
  it('high before normal before low, first come first served within one', () => {
    assert.deepEqual(
      order(t('low', 100), t('normal', 102), t('high', 103), t('normal', 101), t('high', 104)),
      ['high@103', 'high@104', 'normal@101', 'normal@102', 'low@100'],
    )
  })

  it('nobody starves: 30 s of waiting put a low before every later high, 15 s a normal', () => {
    assert.deepEqual(order(t('low', 100), t('high', 129)), ['high@129', 'low@100'])
    assert.deepEqual(order(t('low', 100), t('high', 131)), ['low@100', 'high@131'])
    assert.deepEqual(order(t('normal', 100), t('high', 114)), ['high@114', 'normal@100'])
    assert.deepEqual(order(t('normal', 100), t('high', 116)), ['normal@100', 'high@116'])
  })

  it('the order is total and does not depend on who lists, and within a priority it is arrival', () => {
    const arb = fc.record({
      priority: fc.constantFrom('high' as const, 'normal' as const, 'low' as const),
      us: fc.integer({ min: 0, max: 1e15 }),
      pid: fc.integer({ min: 1, max: 4194304 }),
    })
    fc.assert(
      fc.property(fc.array(arb, { maxLength: 20 }), fc.infiniteStream(fc.nat()), (list, noise) => {
        const names = list.map((x, i) => ticketName(x.priority, x.us, x.pid, i.toString(36)))
        const sorted = sortTickets(names)
        assert.equal(sorted.length, names.length)
        const shuffled = [...names].sort(() => ((noise.next().value ?? 0) % 3) - 1)
        assert.deepEqual(sortTickets(shuffled), sorted)
        sorted.forEach((x, i) => {
          assert.equal(predecessor(sorted, x.name)?.name, sorted[i - 1]?.name)
          const next = sorted[i + 1]
          if (next?.priority === x.priority) assert.ok(x.arrivedUs <= next.arrivedUs)
        })
      }),
    )
  })

  it('what is no ticket, or claims a place it did not earn, is ignored', () => {
    const good = t('low', 5)
    assert.equal(parseTicket(good)?.priority, 'low')
    for (const bad of [
      'slot-0.lock',
      'slot-0.holder',
      `new-${good}`,
      'ticket-',
      `${good}/..`,
      good.replace(/^ticket-\d+/, 'ticket-00000000000000000'),
      good.replace('low', 'urgent'),
    ]) {
      assert.equal(parseTicket(bad), undefined, bad)
    }
  })

  it('knows its priorities', () => {
    assert.ok(isPriority('high') && isPriority('low') && !isPriority('High') && !isPriority(undefined))
  })
})

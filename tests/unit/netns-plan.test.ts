import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import {
  describeStep,
  firewall,
  type LinkLook,
  type NetworkLook,
  type NetworkWant,
  planUp,
  type Step,
} from '../../lib/netns/plan.ts'

const want: NetworkWant = {
  node: 'n1',
  netns: 'warp-n1',
  veth: 've-00112233',
  vpeer: 'vp-00112233',
  gw: '10.201.50.1',
  peer: '10.201.50.2',
}
const host: LinkLook = { up: true, ipv4: ['10.201.50.1/30'], ipv6: false }
const peer: LinkLook = { up: true, ipv4: ['10.201.50.2/30'], ipv6: false }
const whole: NetworkLook = { file: 'namespace', host, inside: { loUp: true, peer, firewall: true } }

function steps(look: NetworkLook): readonly Step[] {
  const plan = planUp(want, look)
  assert.equal(plan.kind, 'steps')
  return plan.kind === 'steps' ? plan.steps : []
}
const kinds = (look: NetworkLook) => steps(look).map((s) => ('where' in s ? `${s.kind} ${s.where}` : s.kind))

const everything = [
  'add-netns',
  'add-pair',
  'firewall',
  'ipv6-off inside',
  'ipv6-off host',
  'lo-up',
  'address inside',
  'link-up inside',
  'address host',
  'link-up host',
]
const table: [string, NetworkLook, string[]][] = [
  ['all there: nothing to do', whole, []],
  ['nothing there: everything, firewall before any link is up', { file: 'absent' }, everything],
  ['namespace gone, its veth left behind', { file: 'absent', host }, ['delete-pair', ...everything]],
  [
    'namespace without a pair',
    { file: 'namespace', inside: { loUp: true, firewall: true } },
    everything.filter((k) => !['add-netns', 'firewall', 'lo-up'].includes(k)),
  ],
  [
    'host end without its peer in the namespace',
    { ...whole, inside: { loUp: true, firewall: true } },
    ['delete-pair', ...everything.filter((k) => !['add-netns', 'firewall', 'lo-up'].includes(k))],
  ],
  [
    'peer without its host end',
    { file: 'namespace', inside: { loUp: true, peer, firewall: true } },
    ['delete-stray-peer', ...everything.filter((k) => !['add-netns', 'firewall', 'lo-up'].includes(k))],
  ],
  ['host address stripped', { ...whole, host: { ...host, ipv4: [] } }, ['address host']],
  ['host end down', { ...whole, host: { ...host, up: false } }, ['link-up host']],
  ['IPv6 came back on the host end', { ...whole, host: { ...host, ipv6: true } }, ['ipv6-off host']],
  [
    'peer address stripped',
    { ...whole, inside: { loUp: true, peer: { ...peer, ipv4: [] }, firewall: true } },
    ['address inside'],
  ],
  ['lo down', { ...whole, inside: { loUp: false, peer, firewall: true } }, ['lo-up']],
  ['firewall gone', { ...whole, inside: { loUp: true, peer, firewall: false } }, ['firewall']],
]
for (const [name, look, expected] of table) {
  test(`plan: ${name}`, () => assert.deepEqual(kinds(look), expected))
}

test('a plain file in /run/netns is refused with the command that clears it', () => {
  const plan = planUp(want, { file: 'not-a-namespace', host })
  assert.equal(plan.kind, 'refuse')
  assert.ok(plan.kind === 'refuse')
  assert.match(plan.why, /warp-n1 is a plain file, not a namespace/)
  assert.equal(plan.next, 'rm /run/netns/warp-n1 && netvm-node-up n1')
})

test('an interface name beyond 15 characters is refused before anything is made', () => {
  const plan = planUp({ ...want, veth: 've-0011223344556' }, { file: 'absent' })
  assert.ok(plan.kind === 'refuse')
  assert.match(plan.why, /not 1 to 15 characters/)
  assert.equal(planUp({ ...want, veth: 've-001122334455' }, { file: 'absent' }).kind, 'steps')
})

test('another address on our veth is replaced: the row moved to another subnet', () => {
  const look = { ...whole, host: { ...host, ipv4: ['10.201.9.1/30'] } }
  const lines = steps(look).flatMap((s) => describeStep(s, want).lines)
  assert.deepEqual(lines, [
    'addr del 10.201.9.1/30 dev ve-00112233',
    'addr add 10.201.50.1/30 dev ve-00112233',
  ])
})

test('whatever is there, carrying out the plan leaves nothing to do', () => {
  const link = fc.record({
    up: fc.boolean(),
    ipv4: fc.uniqueArray(
      fc.constantFrom('10.201.50.1/30', '10.201.50.2/30', '10.9.9.9/24', '10.201.50.1/24'),
    ),
    ipv6: fc.boolean(),
  })
  const look = fc
    .record({
      there: fc.boolean(),
      host: fc.option(link, { nil: undefined }),
      peer: fc.option(link, { nil: undefined }),
      loUp: fc.boolean(),
      firewall: fc.boolean(),
    })
    .map(
      (r): NetworkLook => ({
        file: r.there ? 'namespace' : 'absent',
        ...(r.host && { host: r.host }),
        ...(r.there && { inside: { loUp: r.loUp, firewall: r.firewall, ...(r.peer && { peer: r.peer }) } }),
      }),
    )
  fc.assert(fc.property(look, (seen) => assert.deepEqual(steps(carryOut(seen)), [])))
})

/** A model of the kernel: what a plan's steps make of a state. */
function carryOut(look: NetworkLook): NetworkLook {
  let host = look.host && { ...look.host }
  let inside = look.inside && { ...look.inside }
  for (const step of steps(look)) {
    const on = (f: (l: LinkLook) => LinkLook) => {
      if (!('where' in step)) return
      if (step.where === 'host') host = f(host ?? assert.fail('no host end'))
      else inside = { ...(inside ?? assert.fail()), peer: f(inside?.peer ?? assert.fail('no peer')) }
    }
    if (step.kind === 'delete-pair') {
      host = undefined
      if (inside) inside = { loUp: inside.loUp, firewall: inside.firewall }
    }
    if (step.kind === 'delete-stray-peer' && inside) inside = { loUp: inside.loUp, firewall: inside.firewall }
    if (step.kind === 'add-netns') inside = { loUp: false, firewall: false }
    if (step.kind === 'add-pair') {
      assert.equal(host, undefined)
      assert.equal(inside?.peer, undefined)
      host = { up: false, ipv4: [], ipv6: true }
      inside = { ...(inside ?? assert.fail()), peer: { up: false, ipv4: [], ipv6: true } }
    }
    if (step.kind === 'firewall') inside = { ...(inside ?? assert.fail()), firewall: true }
    if (step.kind === 'lo-up') inside = { ...(inside ?? assert.fail()), loUp: true }
    if (step.kind === 'ipv6-off') on((l) => ({ ...l, ipv6: false }))
    if (step.kind === 'link-up') on((l) => ({ ...l, up: true }))
    if (step.kind === 'address')
      on((l) => ({
        ...l,
        ipv4: [...l.ipv4.filter((a) => !step.remove.includes(a)), ...(step.add ? [step.add] : [])],
      }))
  }
  return { file: 'namespace', ...(host && { host }), ...(inside && { inside }) }
}

test('the firewall names the peer end, accepts answers and drops what is new', () => {
  const rules = firewall(want)
  assert.match(
    rules,
    /oifname "vp-00112233" ct state established,related accept\n\s+oifname "vp-00112233" drop/,
  )
})

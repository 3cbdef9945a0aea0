import { domainToUnicode } from 'node:url'
import { fromJson, list, object, type Reader, record, text, usable } from '../base/shape.ts'

/** One entry of `/json/list`. Everything in it was written by a web page or another program: clean before printing. */
export interface Target {
  readonly id: string
  /** Empty when the entry had none. Only `page` is a page; `browser_ui`, workers and iframes are not. */
  readonly type: string
  readonly title: string
  readonly url: string
  /** Absent when another client holds the target, or the entry had no usable one. */
  readonly wsUrl?: string
}

export type PageVerdict =
  | { readonly kind: 'ok'; readonly page: Target }
  /** Pages, but none with the title. */
  | { readonly kind: 'missing'; readonly titles: readonly string[] }
  /** A browser without any page; `types` says what it has instead. */
  | { readonly kind: 'noPages'; readonly types: readonly string[] }
  /** No page with the title, and one shows the browser's own error page. */
  | { readonly kind: 'errorPage'; readonly page: Target }

const orEmpty: Reader<string> = (v) => (typeof v === 'string' ? v : '')
const ENTRY = record({ id: text, type: orEmpty, title: orEmpty, url: orEmpty, webSocketDebuggerUrl: orEmpty })
const WS_URL = /^wss?:\/\/[^/\s]+(\/devtools\/[\x21-\x7e]+)$/

/**
 * Parses `/json/version`. Undefined unless it is a Chromium's answer: JSON of another program has no
 * `Browser`, and Node's inspector, which has one, has no `webSocketDebuggerUrl`.
 */
export function parseVersion(body: string): { browser: string; wsUrl: string } | undefined {
  const data = fromJson(body, object)
  if (data === undefined) return undefined
  const { Browser: browser, webSocketDebuggerUrl: wsUrl } = data
  if (typeof browser !== 'string' || browser === '') return undefined
  if (typeof wsUrl !== 'string' || !WS_URL.test(wsUrl) || !wsUrl.includes('/devtools/browser'))
    return undefined
  return { browser, wsUrl }
}

/** The id of a browser in its WebSocket URL: random at each start, so it names one process. */
export const browserId = (wsUrl: string): string => wsUrl.replace(/^.*\//, '')

/** Parses `/json/list`, in its order. Undefined unless it is an array of targets; odd entries are skipped. */
export function parseTargets(body: string): Target[] | undefined {
  const data = fromJson(
    body,
    list<unknown>((v) => v),
  )
  if (data === undefined) return undefined
  const targets = usable(ENTRY)(data).map(({ webSocketDebuggerUrl: wsUrl, ...entry }) =>
    WS_URL.test(wsUrl) ? { ...entry, wsUrl } : entry,
  )
  // An array of something else is another program's answer, not a browser without targets.
  return targets.length === 0 && data.length > 0 ? undefined : targets
}

/**
 * Finds the page whose title contains `title` (any page when empty). An error page never counts, whatever
 * its title: Chromium titles it with the host name, which may well be what is looked for.
 */
export function pageVerdict(targets: readonly Target[], title: string): PageVerdict {
  const pages = targets.filter((t) => t.type === 'page')
  if (pages.length === 0) return { kind: 'noPages', types: [...new Set(targets.map((t) => t.type || '?'))] }
  const page = pages.find((t) => !isErrorUrl(t.url) && t.title.includes(title))
  if (page !== undefined) return { kind: 'ok', page }
  const error = pages.find((t) => isErrorUrl(t.url))
  if (error !== undefined) return { kind: 'errorPage', page: error }
  return { kind: 'missing', titles: pages.map((t) => t.title) }
}

/**
 * Whether a page may be the browser's own error page although its URL does not say so: Chromium 156 lists
 * a failed navigation under the URL that was asked for, titled with its host name or, at first, its address. A page
 * of that title looks the same from here; only `location.href` inside it (`chrome-error://…`) distinguishes them.
 */
export function mayBeErrorPage(target: Target): boolean {
  if (isErrorUrl(target.url)) return true
  if (target.title === '' || !URL.canParse(target.url)) return false
  return isTitledByHost(target.title, new URL(target.url))
}

/**
 * A title that is nothing but the page's host name, also written in letters of its own (`müller.example`), or its
 * address: for a moment Chromium 156 lists a page under that, and a failed navigation too.
 */
export function isTitledByHost(title: string, { hostname, host, pathname, search }: URL): boolean {
  const address = `${host}${pathname}${search}`
  return [hostname, domainToUnicode(hostname), host, address].includes(title)
}

/**
 * The same WebSocket URL at the address that was dialled: behind a relay the browser names an authority
 * that leads elsewhere. Throws TypeError for anything `parseVersion` or `parseTargets` would not return.
 */
export function rewriteAuthority(wsUrl: string, host: string, port: number): string {
  const path = WS_URL.exec(wsUrl)?.[1]
  if (path === undefined) throw new TypeError('not a DevTools WebSocket URL')
  return `ws://${host.includes(':') ? `[${host}]` : host}:${port}${path}`
}

/** Whether a page that is at this address is the browser's own error page. */
export function isErrorUrl(url: string): boolean {
  return url.startsWith('chrome-error:')
}

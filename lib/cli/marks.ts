import type { MarkState } from '../base/types.ts'
import type { Style } from './cli.ts'

/** The sign of each layer's state on a screen. */
export const MARKS: Readonly<Record<MarkState, string>> = {
  ok: '✓',
  fail: '✗',
  unknown: '?',
  'not-checked': '·',
  'not-configured': '-',
  paused: '‖',
}

/** A text in the colour of a state: what is not judged is dim. */
export function paintState(style: Style, state: MarkState, text: string): string {
  if (state === 'ok') return style.green(text)
  if (state === 'fail') return style.red(text)
  return state === 'unknown' ? style.yellow(text) : style.dim(text)
}

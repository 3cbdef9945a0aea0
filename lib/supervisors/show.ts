import { timerText } from '../host/systemctl.ts'

/**
 * One line for a person who starts a run by hand: is the timer armed, when is it due, what did the last run do.
 * @param what the line's beginning: `muse: timer`
 * @param acted what the last run did, where that is known
 */
export async function contextLine(what: string, timer: string, acted?: string): Promise<string> {
  const due = `${what} ${await timerText(timer)}`
  return acted === undefined ? due : `${due}; ${acted}`
}

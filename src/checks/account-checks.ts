// Asks the checks of an account by their names (between the judgement of events and check-calls.ts): those of one check
// together, different checks at once. Invariant: an answer for each question, in their order. A name that no check has
// (any more) is an error, as its policy says for errors; Redis away rejects, and the submission is refused.
import type { CheckRecord } from '../../schemas/external-check.ts';
import type { CheckAnswer, CheckCalls } from './check-calls.ts';
import type { CheckQuestion } from './formats/format.ts';

export type NamedQuestion = CheckQuestion & { check: string };
type ChecksByName = ReadonlyMap<string, CheckRecord>;

export class AccountChecks {
  readonly #calls: Pick<CheckCalls, 'ask'>;
  readonly #checksOf: (account: string) => ChecksByName | Promise<ChecksByName>;

  constructor(calls: Pick<CheckCalls, 'ask'>, checksOf: (account: string) => ChecksByName | Promise<ChecksByName>) {
    this.#calls = calls;
    this.#checksOf = checksOf;
  }

  /** `isWatched`: no reply waits for it. */
  async ask(account: string, questions: readonly NamedQuestion[], how = { isWatched: false }): Promise<CheckAnswer[]> {
    const checks = await this.#checksOf(account);
    const answers: CheckAnswer[] = questions.map(() => ({ failure: 'error', ms: 0 }));
    const names = new Set(questions.map(({ check }) => check));
    await Promise.all(
      [...names].map(async (name) => {
        const check = checks.get(name);
        if (check === undefined) return;
        const places = questions.flatMap((question, i) => (question.check === name ? [i] : []));
        const said = await this.#calls.ask(
          account,
          check,
          places.map((i) => questions[i]!),
          how,
        );
        for (const [k, i] of places.entries()) answers[i] = said[k]!;
      }),
    );
    return answers;
  }
}

// Made by `npm run docs` of the schemas that the service validates with; not to be edited.
export interface components {
    schemas: {
        /** @description The decision that a pending event waits for. */
        Approval: {
            /**
             * @description Id of the approval.
             * @example apr_01jd3fq5w0c8m2v7x4k9n6t1rz
             */
            id: string;
            /**
             * @description The agent that waits.
             * @example agt_01jd3fq5w0c8m2v7x4k9n6t1rz
             */
            agent_id: string;
            /**
             * @description The event that waits.
             * @example evt_01jd3fq5w0c8m2v7x4k9n6t1rz
             */
            event_id: string;
            /**
             * @description The policy that asked for it.
             * @example pol_01jd3fq5w0c8m2v7x4k9n6t1rz
             */
            policy_id: string;
            /**
             * @description The name that the policy had then.
             * @example refunds need a person
             */
            policy_name: string;
            /** @description Whether it was decided, and how. */
            status: components["schemas"]["ApprovalStatus"];
            /**
             * @description What the event ends as; `pending` until it is decided. Act on this, not on `status`.
             * @example pending
             */
            outcome: components["schemas"]["Outcome"];
            /**
             * @description What becomes of the event if there is no decision until `expires_at`.
             * @example deny
             * @enum {string}
             */
            on_timeout: "deny" | "approve";
            /**
             * Format: date-time
             * @description When the event arrived.
             * @example 2026-11-20T17:28:00.000Z
             */
            created_at: string;
            /**
             * Format: date-time
             * @description Until when it can be decided.
             * @example 2026-11-20T17:28:00.000Z
             */
            expires_at: string;
            /**
             * @description When it was decided. null: it was not yet.
             * @example null
             */
            decided_at: string | null;
            /**
             * @description `key:<key_id>`, or `system` for a timeout. null: it was not decided yet.
             * @example null
             */
            decided_by: string | null;
            /**
             * @description Why the event ends so. `approval`: it was decided, or the time was over. `agent_inactive`: its agent was switched off before. `policy`: a policy made since blocks it. null: it was not decided yet.
             * @example null
             */
            reason: ("approval" | "agent_inactive" | "policy") | null;
            /**
             * @description The policy that blocks the event although it was approved. null: none.
             * @example null
             */
            blocked_by: string | null;
            /**
             * @description What was said with the decision. null: nothing.
             * @example null
             */
            comment: string | null;
        };
        /**
         * @description `pending`: no decision yet. `approved`, `denied`: decided by a person. `expired`: its time was over; `outcome` says what came of the event.
         * @enum {string}
         */
        ApprovalStatus: "pending" | "approved" | "denied" | "expired";
        /** @description What became of the elements of a batch. */
        BatchResult: {
            /** @description One for each element, in the order of submission: the event, or why it was refused. */
            results: (components["schemas"]["Event"] | components["schemas"]["EventError"])[];
            /**
             * @description How many events were recorded.
             * @example 1
             */
            total: number;
        };
        /** @description A match of a policy of the type `block_action`. */
        BlockActionMatch: {
            /**
             * @description The policy that matched.
             * @example pol_01jd3fq5w0c8m2v7x4k9n6t1rz
             */
            policy_id: string;
            /**
             * @description The revision that the policy had then.
             * @example 3
             */
            revision: number;
            /**
             * @description The name that the policy had then.
             * @example no large payments
             */
            name: string;
            /**
             * @description `block_action`: which form the other fields have. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "block_action";
            /**
             * @description The actions of the policy. `log` alone never interrupts.
             * @example [
             *       "block",
             *       "alert"
             *     ]
             */
            actions: components["schemas"]["PolicyAction"][];
            /**
             * @description The severity of the policy. null: it has none.
             * @example high
             */
            severity: components["schemas"]["Severity"] | null;
            /** @description What the match says beyond the policy itself. */
            detail: components["schemas"]["ConditionsDetail"];
            /**
             * @description Of the policy that decided: the description that it had then, which tells the agent why and what to do instead. Left out: another decided, or it has none.
             * @example Payments over 1,000 need an invoice: call request_invoice.
             */
            description?: string;
        };
        /**
         * @description What a match of a `budget` policy says beyond the policy itself.
         * @example {
         *       "limit": "25.00 USD",
         *       "window": "day",
         *       "per": "agent",
         *       "needed": "0.40 USD",
         *       "left": "0.12 USD"
         *     }
         */
        BudgetDetail: {
            /**
             * @description What may be used up in one window: an amount with its currency, or a number of tokens or events.
             * @example 25.00 USD
             */
            limit: string | number;
            /**
             * @description The window: `day`, `week`, `month`, or its seconds.
             * @example day
             */
            window: string;
            /**
             * @description `agent`, `account`, `trace`, or the path that has a budget of its own.
             * @example agent
             */
            per: string;
            /**
             * @description What the call would have taken. Left out: it is not known.
             * @example 0.40 USD
             */
            needed?: string | number;
            /**
             * @description What was left of the limit before it. Left out: it was not asked.
             * @example 0.12 USD
             */
            left?: string | number;
            /**
             * @description Output tokens with which the call would still fit. Left out: it does not depend on them.
             * @example 310
             */
            max_tokens?: number;
            /**
             * Format: date-time
             * @description When the window ends, or the oldest part of a sliding one. Left out: nothing is spent.
             * @example 2026-11-20T17:28:00.000Z
             */
            resets_at?: string;
            /**
             * @description Why it counts as over: the model has no price in the currency of the limit (`unpriced`); the call does not say how much output it allows, and the price table no `max_output` (`no_ceiling`); what was spent before is still being read (`state_unknown`). Left out: all was known.
             * @enum {string}
             */
            unknown?: "unpriced" | "no_ceiling" | "state_unknown";
            /**
             * @description The condition that could not be evaluated. Left out unless that is so.
             * @example expression
             */
            condition?: string;
            /** @description The conditions by which the call is charged, at most 20. Left out: every call is. */
            conditions?: components["schemas"]["ConditionHeld"][];
            /**
             * @description Why the policy counts as matched although it could not be evaluated: the work that one event may cost was used up, its expression failed on the event, a condition compares numbers and the event has something else there, it leads into a text that begins like JSON and cannot be read, or a mistake of ours. Left out: it was evaluated.
             * @enum {string}
             */
            reason?: "budget" | "expression_error" | "not_a_number" | "not_json" | "error";
        };
        /** @description A match of a policy of the type `budget`. */
        BudgetMatch: {
            /**
             * @description The policy that matched.
             * @example pol_01jd3fq5w0c8m2v7x4k9n6t1rz
             */
            policy_id: string;
            /**
             * @description The revision that the policy had then.
             * @example 3
             */
            revision: number;
            /**
             * @description The name that the policy had then.
             * @example no large payments
             */
            name: string;
            /**
             * @description `budget`: which form the other fields have. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "budget";
            /**
             * @description The actions of the policy. `log` alone never interrupts.
             * @example [
             *       "block",
             *       "alert"
             *     ]
             */
            actions: components["schemas"]["PolicyAction"][];
            /**
             * @description The severity of the policy. null: it has none.
             * @example high
             */
            severity: components["schemas"]["Severity"] | null;
            /** @description What the match says beyond the policy itself. */
            detail: components["schemas"]["BudgetDetail"];
            /**
             * @description Of the policy that decided: the description that it had then, which tells the agent why and what to do instead. Left out: another decided, or it has none.
             * @example Payments over 1,000 need an invoice: call request_invoice.
             */
            description?: string;
        };
        /** @description What a budget holds for a call. */
        BudgetReserved: {
            /**
             * @description The budget.
             * @example pol_01jd3fq5w0c8m2v7x4k9n6t1rz
             */
            policy_id: string;
            /**
             * @description What is held for the call until it is settled: money with its currency, tokens, or events.
             * @example 0.40 USD
             */
            reserved: string | number;
            /**
             * @description What is left beside it. Below 0: a budget that does not block is over.
             * @example 24.60 USD
             */
            left: string | number;
            /** @description When the window ends, or the oldest part of a sliding one. null: nothing is spent in a sliding one. */
            resets_at: string | null;
            /**
             * @description Output tokens that would fit into what was left. Left out: the call does not say how many it allows, or they do not matter.
             * @example 9840
             */
            max_tokens?: number;
        };
        /**
         * @description A condition of the policy that held, with one of its operators.
         * @example {
         *       "condition": "payload.arguments.amount",
         *       "operator": "gt",
         *       "path": "/arguments/amount"
         *     }
         */
        ConditionHeld: {
            /**
             * @description Key in `conditions` as the policy writes it, cut at 200 characters; `expression` and `payload_schema` among them.
             * @example payload.arguments.amount
             */
            condition: string;
            /**
             * @description JSON Pointer into the payload: where it held; of `payload_schema` what does not satisfy it. Left out for `type`, `trace_id`, `agent_id` and `expression`, and where finding the place is too much work.
             * @example /arguments/amount
             */
            path?: string;
            /**
             * @description The operator that held. Left out for `payload_schema` and `expression`.
             * @example gt
             */
            operator?: components["schemas"]["Operator"];
            /**
             * @description Place in the list of `shell` or `sql`, from 0, of the entry that was met. Left out for other operators, and where there is no list.
             * @example 3
             */
            entry?: number;
            /**
             * @description Keyword of JSON Schema that is not satisfied. Left out unless the condition is `payload_schema`.
             * @example maximum
             */
            keyword?: string;
            /**
             * @description It held because no value is there. Left out: it held for a value.
             * @example true
             * @constant
             */
            absent?: true;
        };
        /**
         * @description What a match says beyond its policy, where the conditions alone decide. With `reason`, `condition` is what could not be evaluated.
         * @example {
         *       "condition": "payload.arguments.amount",
         *       "operator": "gt",
         *       "path": "/arguments/amount"
         *     }
         */
        ConditionsDetail: {
            /**
             * @description Key in `conditions` as the policy writes it, cut at 200 characters; `expression` and `payload_schema` among them.
             * @example payload.arguments.amount
             */
            condition?: string;
            /**
             * @description JSON Pointer into the payload: where it held; of `payload_schema` what does not satisfy it. Left out for `type`, `trace_id`, `agent_id` and `expression`, and where finding the place is too much work.
             * @example /arguments/amount
             */
            path?: string;
            /**
             * @description The operator that held. Left out for `payload_schema` and `expression`.
             * @example gt
             */
            operator?: components["schemas"]["Operator"];
            /**
             * @description Place in the list of `shell` or `sql`, from 0, of the entry that was met. Left out for other operators, and where there is no list.
             * @example 3
             */
            entry?: number;
            /**
             * @description Keyword of JSON Schema that is not satisfied. Left out unless the condition is `payload_schema`.
             * @example maximum
             */
            keyword?: string;
            /**
             * @description It held because no value is there. Left out: it held for a value.
             * @example true
             * @constant
             */
            absent?: true;
            /**
             * @description The policy has no conditions and matches every event. Left out: it has some.
             * @example true
             * @constant
             */
            every_event?: true;
            /** @description All conditions that held, one entry an operator, at most 20. Left out where there is one alone, and of the matches behind those that name 4,000 together. Above them stands the last that has a place in the payload. */
            conditions?: components["schemas"]["ConditionHeld"][];
            /**
             * @description Why the policy counts as matched although it could not be evaluated: the work that one event may cost was used up, its expression failed on the event, a condition compares numbers and the event has something else there, it leads into a text that begins like JSON and cannot be read, or a mistake of ours. Left out: it was evaluated.
             * @enum {string}
             */
            reason?: "budget" | "expression_error" | "not_a_number" | "not_json" | "error";
        };
        /**
         * @description What a match of a `data_filter` policy says beyond the policy itself: the first finding.
         * @example {
         *       "detector": "email",
         *       "path": "/prompt"
         *     }
         */
        DataFilterDetail: {
            /** @description The detector that found something. Left out where a pattern did. */
            detector?: components["schemas"]["Detector"];
            /** @description Place in `patterns`, from 0, of the pattern that matched. Left out where a detector found something. */
            pattern?: number;
            /**
             * @description JSON Pointer into the payload to the string in which it was found. What was found is never repeated.
             * @example /messages/0/content
             */
            path?: string;
            /**
             * @description It was found in `trace_id`, and there is no `path`. Left out: in the payload.
             * @constant
             */
            field?: "trace_id";
            /**
             * @description It was found in the name of a key. Left out: in a value.
             * @example true
             * @constant
             */
            key?: true;
            /**
             * @description The condition that could not be evaluated. Left out unless that is so.
             * @example expression
             */
            condition?: string;
            /** @description The other conditions of the policy, all of which held, at most 20. Left out: it has none. */
            conditions?: components["schemas"]["ConditionHeld"][];
            /**
             * @description Why the policy counts as matched although it could not be evaluated: the work that one event may cost was used up, its expression failed on the event, a condition compares numbers and the event has something else there, it leads into a text that begins like JSON and cannot be read, or a mistake of ours. Left out: it was evaluated.
             * @enum {string}
             */
            reason?: "budget" | "expression_error" | "not_a_number" | "not_json" | "error";
        };
        /** @description A match of a policy of the type `data_filter`. */
        DataFilterMatch: {
            /**
             * @description The policy that matched.
             * @example pol_01jd3fq5w0c8m2v7x4k9n6t1rz
             */
            policy_id: string;
            /**
             * @description The revision that the policy had then.
             * @example 3
             */
            revision: number;
            /**
             * @description The name that the policy had then.
             * @example no large payments
             */
            name: string;
            /**
             * @description `data_filter`: which form the other fields have. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "data_filter";
            /**
             * @description The actions of the policy. `log` alone never interrupts.
             * @example [
             *       "block",
             *       "alert"
             *     ]
             */
            actions: components["schemas"]["PolicyAction"][];
            /**
             * @description The severity of the policy. null: it has none.
             * @example high
             */
            severity: components["schemas"]["Severity"] | null;
            /** @description What the match says beyond the policy itself. */
            detail: components["schemas"]["DataFilterDetail"];
            /**
             * @description Of the policy that decided: the description that it had then, which tells the agent why and what to do instead. Left out: another decided, or it has none.
             * @example Payments over 1,000 need an invoice: call request_invoice.
             */
            description?: string;
        };
        /**
         * @description A kind of personal data or secret that a `data_filter` policy finds.
         * @enum {string}
         */
        Detector: "email" | "phone" | "credit_card" | "iban" | "ssn" | "ip_address" | "api_key" | "jwt" | "private_key";
        /**
         * @description What went wrong, for programs. The set is closed within `/v1`.
         * @enum {string}
         */
        ErrorCode: "malformed_json" | "validation_failed" | "invalid_token" | "other_session" | "insufficient_scope" | "account_suspended" | "cross_site_request" | "own_request" | "not_found" | "method_not_allowed" | "name_taken" | "request_timeout" | "agent_inactive" | "already_decided" | "last_admin_key" | "on_hold" | "check_in_use" | "backtest_running" | "idempotency_conflict" | "idempotency_in_progress" | "not_redeliverable" | "revision_conflict" | "length_required" | "payload_too_large" | "headers_too_large" | "unsupported_media_type" | "rate_limited" | "quota_exceeded" | "internal" | "unavailable";
        /** @description One thing that is wrong. */
        ErrorDetail: {
            /**
             * @description JSON Pointer into the body, or the name of a query parameter or header.
             * @example /conditions/window
             */
            path: string;
            /**
             * @description What is wrong there.
             * @example is required
             */
            message: string;
        };
        /** @description An event, and what the policies made of it. */
        Event: {
            /**
             * @description Id of the event.
             * @example evt_01jd3fq5w0c8m2v7x4k9n6t1rz
             */
            id: string;
            /**
             * @description The agent that it is of.
             * @example agt_01jd3fq5w0c8m2v7x4k9n6t1rz
             */
            agent_id: string;
            /**
             * @description What kind of event it is.
             * @example tool_call
             */
            type: components["schemas"]["EventType"];
            /**
             * @description As it was submitted, token by token; in later reads with what a policy redacted replaced.
             * @example {
             *       "tool": "send_money",
             *       "arguments": {
             *         "amount": 5000
             *       }
             *     }
             */
            payload: components["schemas"]["Payload"];
            /**
             * @description What the events of one run share. Left out: it belongs to no trace.
             * @example conversation-1
             */
            trace_id?: string;
            /**
             * Format: date-time
             * @description When it happened, by the caller's word, to the microsecond: with six digits where the last three are not zero.
             * @example 2026-11-20T17:28:00.000Z
             */
            timestamp: string;
            /**
             * Format: date-time
             * @description When it arrived, by our clock.
             * @example 2026-11-20T17:28:00.000Z
             */
            received_at: string;
            /** @description What the policies made of it. */
            policy_result: components["schemas"]["PolicyResult"];
            /**
             * @description What its tokens cost, by the price table of the account when it arrived. In reads alone. null: it says tokens, and what they cost is unknown. Left out: it says none, or the account had no prices.
             * @example 0.012345 USD
             */
            cost?: string | null;
            /**
             * @description Beside `cost`: the revision of the price table that was asked.
             * @example 3
             */
            price_revision?: number;
            /**
             * @description In the answer to a submission alone: the payload as it is kept, to be used in place of what was sent. Left out: no policy redacts anything of it.
             * @example {
             *       "prompt": "Call me at [redacted:phone]"
             *     }
             */
            redacted_payload?: components["schemas"]["Payload"];
        };
        /** @description In the place of an element of a batch that was refused: why. */
        EventError: {
            /** @description Why the element was refused. */
            error: {
                /** @description What went wrong, for programs. */
                code: components["schemas"]["ErrorCode"];
                /**
                 * @description What is wrong, one sentence for people.
                 * @example The event does not fit its schema.
                 */
                message: string;
                /** @description What is wrong and where; left out where there is nothing to add. */
                details?: components["schemas"]["ErrorDetail"][];
            };
        };
        /**
         * @description `prompt`: input from a user or upstream system. `completion`: output. `tool_call`: an external tool, function or API is called. `error`: an exception or failure. `custom`: anything else.
         * @enum {string}
         */
        EventType: "prompt" | "completion" | "tool_call" | "error" | "custom";
        /**
         * @description What a match of an `external_check` policy says beyond the policy itself: the verdict.
         * @example {
         *       "check": "guard",
         *       "score": 0.93,
         *       "labels": [
         *         "S1"
         *       ],
         *       "ms": 42
         *     }
         */
        ExternalCheckDetail: {
            /**
             * @description The check that was asked. Left out where a condition could not be evaluated.
             * @example guard
             */
            check?: string;
            /**
             * @description The score that the check gave. Left out: none.
             * @example 0.93
             */
            score?: number;
            /**
             * @description The labels that it gave. Left out: none.
             * @example [
             *       "S1"
             *     ]
             */
            labels?: string[];
            /**
             * @description How long it took, in ms. Left out with `check`.
             * @example 42
             */
            ms?: number;
            /**
             * @description Why the check said nothing, and the policy counts as matched by its own word: `timeout`, `error` (also an answer that does not fit), `overload` (no room, or its breaker is open), `too_large` (over 64 KiB, `on_error` decides); or why a condition could not be evaluated. Left out: the check matched.
             * @enum {string}
             */
            reason?: "timeout" | "error" | "overload" | "too_large" | "budget" | "expression_error" | "not_a_number" | "not_json" | "error";
            /**
             * @description What it found is redacted in what is kept. Left out: it is not.
             * @example true
             * @constant
             */
            redacted?: true;
            /**
             * @description By that word the event waits for a person. Left out: it does not.
             * @example true
             * @constant
             */
            pending?: true;
            /**
             * @description The condition that could not be evaluated. Left out unless that is so.
             * @example expression
             */
            condition?: string;
            /** @description The other conditions of the policy, all of which held, at most 20. Left out: it has none. */
            conditions?: components["schemas"]["ConditionHeld"][];
        };
        /** @description A match of a policy of the type `external_check`. */
        ExternalCheckMatch: {
            /**
             * @description The policy that matched.
             * @example pol_01jd3fq5w0c8m2v7x4k9n6t1rz
             */
            policy_id: string;
            /**
             * @description The revision that the policy had then.
             * @example 3
             */
            revision: number;
            /**
             * @description The name that the policy had then.
             * @example no large payments
             */
            name: string;
            /**
             * @description `external_check`: which form the other fields have. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "external_check";
            /**
             * @description The actions of the policy. `log` alone never interrupts.
             * @example [
             *       "block",
             *       "alert"
             *     ]
             */
            actions: components["schemas"]["PolicyAction"][];
            /**
             * @description The severity of the policy. null: it has none.
             * @example high
             */
            severity: components["schemas"]["Severity"] | null;
            /** @description What the match says beyond the policy itself. */
            detail: components["schemas"]["ExternalCheckDetail"];
            /**
             * @description Of the policy that decided: the description that it had then, which tells the agent why and what to do instead. Left out: another decided, or it has none.
             * @example Payments over 1,000 need an invoice: call request_invoice.
             */
            description?: string;
        };
        /**
         * @description How a condition compares a field.
         * @enum {string}
         */
        Operator: "eq" | "ne" | "in" | "not_in" | "gt" | "gte" | "lt" | "lte" | "contains" | "starts_with" | "ends_with" | "matches" | "glob" | "shell" | "sql" | "exists";
        /**
         * @description `allowed`: go on. `blocked`: the action must not be carried out. `pending`: wait for the decision of the approval.
         * @enum {string}
         */
        Outcome: "allowed" | "blocked" | "pending";
        /** @description Any JSON object. It is kept and comes back token by token: key order, `1.0`, `12345678901234567890`. */
        Payload: {
            [key: string]: unknown;
        };
        /**
         * @description `block`: the event is blocked. `alert`: raises the signal `policy_violation`. `log`: the match is recorded; alone it is a dry run.
         * @enum {string}
         */
        PolicyAction: "block" | "alert" | "log";
        /** @description A policy that matched; `type` says which form `detail` has. */
        PolicyMatch: components["schemas"]["BlockActionMatch"] | components["schemas"]["RateLimitMatch"] | components["schemas"]["DataFilterMatch"] | components["schemas"]["RequireApprovalMatch"] | components["schemas"]["SequenceMatch"] | components["schemas"]["ExternalCheckMatch"] | components["schemas"]["BudgetMatch"];
        /**
         * @description `policy`: a policy decided, `policy_id` says which. `agent_inactive`: the agent is switched off. `approval`: a person decided, or the time was over.
         * @enum {string}
         */
        PolicyReason: "policy" | "agent_inactive" | "approval" | "approval_missing";
        /** @description What the policies made of an event. */
        PolicyResult: {
            /**
             * @description Whether the action may be carried out: the final outcome, where an approval was decided.
             * @example blocked
             */
            outcome: components["schemas"]["Outcome"];
            /**
             * @description What the outcome follows from. null: from nothing, it is allowed.
             * @example policy
             */
            reason: components["schemas"]["PolicyReason"] | null;
            /**
             * @description The policy that decided. null: none did.
             * @example pol_01jd3fq5w0c8m2v7x4k9n6t1rz
             */
            policy_id: string | null;
            /** @description All policies that matched, also those that only record. Empty: none did. */
            matches: components["schemas"]["PolicyMatch"][];
            /** @description The checks outside that were asked about it, also those that said nothing. Left out: none was. */
            checks?: {
                /**
                 * @description The name of the check.
                 * @example guard
                 */
                check: string;
                /**
                 * @description The fields that it was asked about. Left out: all text of the payload.
                 * @example [
                 *       "payload.text"
                 *     ]
                 */
                fields?: string[];
                /**
                 * @description Its own word. Left out: it gave none.
                 * @example true
                 */
                match?: boolean;
                /**
                 * @description The score that the check gave. Left out: none.
                 * @example 0.93
                 */
                score?: number;
                /**
                 * @description The labels that it gave. Left out: none.
                 * @example [
                 *       "S1"
                 *     ]
                 */
                labels?: string[];
                /**
                 * @description Why it said nothing; then each policy that asked did what it says for that. Left out: it answered.
                 * @enum {string}
                 */
                reason?: "timeout" | "error" | "overload" | "too_large";
                /**
                 * @description How long it took, in ms.
                 * @example 42
                 */
                ms: number;
            }[];
            /** @description The approval that the event waits or waited for. Left out: none. */
            approval_id?: string;
            /**
             * @description false: it was reported after the fact, and what the policies say prevented nothing. Left out: it was judged before.
             * @constant
             */
            enforced?: false;
            /**
             * @description The event that was judged before this one was done; its outcome is here, and no policy was asked again. Left out: none was.
             * @example evt_01jd3fq5w0c8m2v7x4k9n6t1rz
             */
            decision_id?: string;
            /** @description What budgets hold for the call that this prompt begins. Its `completion` settles it, an `error` releases it. Left out: none does. */
            budgets?: components["schemas"]["BudgetReserved"][];
            /**
             * @description By which way it was reported. Left out: as an event.
             * @enum {string}
             */
            source?: "otlp";
            /** @description What policies with `mode: shadow` would have made of it; nothing came of that. In reads alone, never in the answer to a submission. Left out: nothing. */
            shadow?: components["schemas"]["ShadowJudged"][];
        };
        /**
         * @description What a match of a `rate_limit` policy says beyond the policy itself.
         * @example {
         *       "threshold": 100,
         *       "window_seconds": 3600,
         *       "per": "payload.tool",
         *       "retry_after_seconds": 42,
         *       "value": "send_money"
         *     }
         */
        RateLimitDetail: {
            /**
             * @description Events that may come in one window.
             * @example 100
             */
            threshold: number;
            /**
             * @description Length of the window in seconds.
             * @example 3600
             */
            window_seconds: number;
            /**
             * @description `agent`, `account`, or the path that is counted apart.
             * @example payload.tool
             */
            per: string;
            /**
             * @description Until the next event is within the limit, if none comes before.
             * @example 42
             */
            retry_after_seconds: number;
            /**
             * @description The value at the path `per` whose counter is over, cut at 100 characters. null: events without it, which are counted together. Left out where `per` is no path, or a data filter found a secret in the event.
             * @example send_money
             */
            value?: string | null;
            /**
             * @description The condition that could not be evaluated. Left out unless that is so.
             * @example expression
             */
            condition?: string;
            /** @description The conditions by which the event is counted, at most 20. Left out: every event is, or one could not be evaluated. */
            conditions?: components["schemas"]["ConditionHeld"][];
            /**
             * @description Why the policy counts as matched although it could not be evaluated: the work that one event may cost was used up, its expression failed on the event, a condition compares numbers and the event has something else there, it leads into a text that begins like JSON and cannot be read, or a mistake of ours. Left out: it was evaluated.
             * @enum {string}
             */
            reason?: "budget" | "expression_error" | "not_a_number" | "not_json" | "error";
        };
        /** @description A match of a policy of the type `rate_limit`. */
        RateLimitMatch: {
            /**
             * @description The policy that matched.
             * @example pol_01jd3fq5w0c8m2v7x4k9n6t1rz
             */
            policy_id: string;
            /**
             * @description The revision that the policy had then.
             * @example 3
             */
            revision: number;
            /**
             * @description The name that the policy had then.
             * @example no large payments
             */
            name: string;
            /**
             * @description `rate_limit`: which form the other fields have. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "rate_limit";
            /**
             * @description The actions of the policy. `log` alone never interrupts.
             * @example [
             *       "block",
             *       "alert"
             *     ]
             */
            actions: components["schemas"]["PolicyAction"][];
            /**
             * @description The severity of the policy. null: it has none.
             * @example high
             */
            severity: components["schemas"]["Severity"] | null;
            /** @description What the match says beyond the policy itself. */
            detail: components["schemas"]["RateLimitDetail"];
            /**
             * @description Of the policy that decided: the description that it had then, which tells the agent why and what to do instead. Left out: another decided, or it has none.
             * @example Payments over 1,000 need an invoice: call request_invoice.
             */
            description?: string;
        };
        /** @description A match of a policy of the type `require_approval`. */
        RequireApprovalMatch: {
            /**
             * @description The policy that matched.
             * @example pol_01jd3fq5w0c8m2v7x4k9n6t1rz
             */
            policy_id: string;
            /**
             * @description The revision that the policy had then.
             * @example 3
             */
            revision: number;
            /**
             * @description The name that the policy had then.
             * @example no large payments
             */
            name: string;
            /**
             * @description `require_approval`: which form the other fields have. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "require_approval";
            /**
             * @description The actions of the policy. `log` alone never interrupts.
             * @example [
             *       "block",
             *       "alert"
             *     ]
             */
            actions: components["schemas"]["PolicyAction"][];
            /**
             * @description The severity of the policy. null: it has none.
             * @example high
             */
            severity: components["schemas"]["Severity"] | null;
            /** @description What the match says beyond the policy itself. */
            detail: components["schemas"]["ConditionsDetail"];
            /**
             * @description Of the policy that decided: the description that it had then, which tells the agent why and what to do instead. Left out: another decided, or it has none.
             * @example Payments over 1,000 need an invoice: call request_invoice.
             */
            description?: string;
        };
        /**
         * @description What a match of a `sequence` policy says beyond the policy itself: what was before.
         * @example {
         *       "after": [
         *         {
         *           "event_id": "evt_01jd3fq5w0c8m2v7x4k9n6t1rz",
         *           "at": "2026-11-29T12:00:00.000Z",
         *           "path": "/arguments/path"
         *         }
         *       ]
         *     }
         */
        SequenceDetail: {
            /** @description The steps that occurred, in their order; of one that must occur several times the last. Empty: the policy has none, or it is not known. */
            after: {
                /**
                 * @description The event that was the step. Left out: its agent was erased.
                 * @example evt_01jd3fq5w0c8m2v7x4k9n6t1rz
                 */
                event_id?: string;
                /**
                 * Format: date-time
                 * @description When it was counted.
                 * @example 2026-11-29T12:00:00.000Z
                 */
                at: string;
                /**
                 * @description JSON Pointer into its payload: where a condition of the step held. Left out where that is not known.
                 * @example /arguments/path
                 */
                path?: string;
            }[];
            /**
             * @description The condition that could not be evaluated. Left out unless that is so.
             * @example expression
             */
            condition?: string;
            /** @description The conditions of the event itself, all of which held, at most 20. Left out: it has none. */
            conditions?: components["schemas"]["ConditionHeld"][];
            /**
             * @description Why the policy counts as matched although it could not be evaluated. `state_unknown`: what occurred before is being read, which takes seconds after the policy was made or changed. `budget`: more values or scopes occurred than are kept. `not_finished`: the event of `unless` waits for its approval, or is being recorded. The others: as of other types. Left out: it was evaluated.
             * @enum {string}
             */
            reason?: "budget" | "expression_error" | "not_a_number" | "not_json" | "error" | "state_unknown" | "not_finished";
            /**
             * @description With `not_finished`: the event that is waited for.
             * @example evt_01jd3fq5w0c8m2v7x4k9n6t1rz
             */
            waits_for?: string;
        };
        /** @description A match of a policy of the type `sequence`. */
        SequenceMatch: {
            /**
             * @description The policy that matched.
             * @example pol_01jd3fq5w0c8m2v7x4k9n6t1rz
             */
            policy_id: string;
            /**
             * @description The revision that the policy had then.
             * @example 3
             */
            revision: number;
            /**
             * @description The name that the policy had then.
             * @example no large payments
             */
            name: string;
            /**
             * @description `sequence`: which form the other fields have. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "sequence";
            /**
             * @description The actions of the policy. `log` alone never interrupts.
             * @example [
             *       "block",
             *       "alert"
             *     ]
             */
            actions: components["schemas"]["PolicyAction"][];
            /**
             * @description The severity of the policy. null: it has none.
             * @example high
             */
            severity: components["schemas"]["Severity"] | null;
            /** @description What the match says beyond the policy itself. */
            detail: components["schemas"]["SequenceDetail"];
            /**
             * @description Of the policy that decided: the description that it had then, which tells the agent why and what to do instead. Left out: another decided, or it has none.
             * @example Payments over 1,000 need an invoice: call request_invoice.
             */
            description?: string;
        };
        /**
         * @description From the lowest to the highest.
         * @enum {string}
         */
        Severity: "low" | "medium" | "high" | "critical";
        /** @description What one shadow would have made of an event. */
        ShadowJudged: {
            /**
             * @description The shadow.
             * @example pol_01jd3fq5w0c8m2v7x4k9n6t1rz
             */
            policy_id: string;
            /**
             * @description The revision that it had then.
             * @example 3
             */
            revision: number;
            /**
             * @description What it would have made of the event by itself. `matched`: it would only have recorded or notified. `not_matched`: said where the policy that it copies matched. `skipped`: it was too much work, or its counters did not answer.
             * @enum {string}
             */
            would: "blocked" | "pending" | "matched" | "not_matched" | "skipped";
        };
        /** @description An event as it is sent. */
        Submission: {
            /** @description What kind of event it is. */
            type: components["schemas"]["EventType"];
            /**
             * @description Any JSON object; it comes back token by token. `model`, `prompt`, `response`, `token_count` and `tokens_used` are indexed.
             * @example {
             *       "model": "gpt-4o",
             *       "prompt": "Where is my order?"
             *     }
             */
            payload: components["schemas"]["Payload"];
            /**
             * @description What the events of one run share, 1 to 200 characters, not `.` or `..`; a UUID is a good form. Left out: it belongs to no trace.
             * @example conversation-1
             */
            trace_id?: string | null;
            /**
             * @description When it happened, with an offset or `Z`, kept to the microsecond: from 2000 on, at most 24 h ahead. Left out: now.
             * @example 2026-11-20T17:28:00Z
             */
            timestamp?: string | null;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type Submission = components['schemas']['Submission'];
export type Event = components['schemas']['Event'];
export type BatchResult = components['schemas']['BatchResult'];
export type PolicyMatch = components['schemas']['PolicyMatch'];
export type PolicyResult = components['schemas']['PolicyResult'];
export type Approval = components['schemas']['Approval'];

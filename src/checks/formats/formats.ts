// The formats of checks, by what a check `speaks`.
import type { Speaks } from '../../../schemas/closed-sets.ts';
import type { CheckFormat } from './format.ts';
import { litellmGuardrail } from './litellm-guardrail.ts';
import { openaiChat } from './openai-chat.ts';
import { openaiModeration } from './openai-moderation.ts';
import { ownForm } from './own-form.ts';
import { presidio } from './presidio.ts';

export const FORMATS: Record<Speaks, CheckFormat> = {
  gatehouse: ownForm,
  litellm_guardrail: litellmGuardrail,
  openai_chat: openaiChat,
  openai_moderation: openaiModeration,
  presidio,
};

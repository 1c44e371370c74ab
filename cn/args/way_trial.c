/* args/way_trial - see way_trial.h. */
#include "cn/args/way_trial.h"

#include "util/bits.h"

enum { ENDED_MIN = 2 * CN_TRIAL_SKIPPED }; /* calls of a block that ended, at least */

static bool block_lends(const struct cn_way_trial *trial)
{
	return trial->block % 2 == 0;
}

static void begin_block(struct cn_way_trial *trial)
{
	trial->sum = trial->started = trial->ended = 0;
	trial->tag += trial->tag == UINT8_MAX ? 2 : 1;
}

/* Decides after the last block. A way that is as good as the other within a twentieth is no reason
 * to copy. */
static void end_trial(struct cn_way_trial *trial)
{
	bool lent = trial->best[1] - trial->best[1] / 20 <= trial->best[0];

	trial->pause = trial->pause && lent == trial->lent
			   ? lend_min_u32(2 * trial->pause, CN_TRIAL_PAUSE_MAX)
			   : CN_TRIAL_PAUSE_MIN;
	trial->left = trial->pause;
	trial->lent = lent;
	trial->best[0] = trial->best[1] = 0;
	trial->block = 0;
}

static void end_block(struct cn_way_trial *trial)
{
	uint64_t mean = trial->sum / (trial->ended - CN_TRIAL_SKIPPED);
	uint64_t *best = &trial->best[block_lends(trial)];

	*best = *best ? lend_min_u64(*best, mean) : mean;
	trial->started = 0;
	if (++trial->block == CN_TRIAL_BLOCKS)
		end_trial(trial);
}

bool cn_trial_choose(struct cn_way_trial *trial, uint8_t *tag)
{
	if (trial->started >= CN_TRIAL_BLOCK && trial->ended >= ENDED_MIN)
		end_block(trial);
	*tag = 0;
	if (trial->left) {
		trial->left--;
		return trial->lent;
	}
	if (!trial->started)
		begin_block(trial);
	trial->started++;
	*tag = trial->tag;
	return block_lends(trial);
}

void cn_trial_ended(struct cn_way_trial *trial, uint8_t tag, uint64_t ns)
{
	if (tag != trial->tag || ++trial->ended <= CN_TRIAL_SKIPPED)
		return;
	trial->sum += ns;
}

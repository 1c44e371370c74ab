/* args/way_trial - whether calls to one service end sooner with their argument inline or lent, from
 * calls that are tried both ways.
 *
 * costs.h adds up times of a message that is alone. A single service that reads the caller's memory
 * in place is different: inline, the caller copies while the service works on the call before, so
 * that which way is faster depends on the calls in flight and on idle CPUs. Therefore blocks of
 * calls use either way in turns, and the way with the least mean time of a call is used until the
 * next trial. The first calls of a block, which wait behind those of the other way, do not count.
 * Each way has two blocks, of which the faster counts: other work can only add to the time.
 * Layer: cn (pure). */
#ifndef LEND_CN_ARGS_WAY_TRIAL_H
#define LEND_CN_ARGS_WAY_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

enum { CN_TRIAL_BLOCK = 32, CN_TRIAL_SKIPPED = 8, CN_TRIAL_BLOCKS = 4 };
enum { CN_TRIAL_PAUSE_MIN = 1 << 11, CN_TRIAL_PAUSE_MAX = 1 << 16 };

/* Trials of one method and range of lengths. All zero: the first trial begins with the next call.
 */
struct cn_way_trial {
	uint64_t best[2];        /* ns, least mean of a block; 0: unknown; [1]: lent */
	uint64_t sum;            /* ns of the calls that ended, of this block */
	uint32_t started, ended; /* calls of this block */
	uint32_t left, pause;    /* calls until the next trial; from one trial to the next */
	uint8_t block;           /* number of this block in the trial */
	uint8_t tag;             /* number that marks this block's calls */
	bool lent;               /* the faster way */
};

/* Returns whether the next call lends its argument. tag: for cn_trial_ended(); 0: no trial. */
bool cn_trial_choose(struct cn_way_trial *trial, uint8_t *tag);
/* Notes the end of a call with a tag. ns: its time. */
void cn_trial_ended(struct cn_way_trial *trial, uint8_t tag, uint64_t ns);

#endif

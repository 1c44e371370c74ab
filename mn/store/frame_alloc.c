#include "mn/store/frame_alloc.h"

#include <string.h>

#include "util/bits.h"
#include "util/check.h"

/* 64 frames are a block. Blocks that are entirely free and blocks that are partly free are in
 * separate sets. A single page goes into a partly free block while there is one, so that entirely
 * free blocks stay intact. A shorter allocation than a block goes into the first gap that is long
 * enough, a longer one into adjacent free blocks. First fit packs about as tightly as best fit, and
 * prefers memory that was in use before. A search examines a few more places than the pages that
 * are wanted, however large the store is. If none fits, it takes the longest that it has seen, and
 * searches again for the rest.
 *
 * Alternatives considered: a LIFO list (small objects and the quarantine shuffle it, and soon the
 * 256 pages of 1 MiB are in 200 runs), buddies (1 MiB and a byte take 2, or many parts), a tree of
 * runs by length (16 bytes and two cache lines for each). */
enum { BLOCK = 64, LOOKS = 8, WAKES = 128 };
#define WHOLE (~UINT64_C(0))

uint64_t lend_free_lay_out(struct lend_free *f, uint32_t frames, uint64_t at)
{
	at = lend_set_lay_out(&f->any, frames, at);
	at = lend_set_lay_out(&f->part, frames / BLOCK, at);
	at = lend_set_lay_out(&f->whole, frames / BLOCK, at);
	at = lend_set_lay_out(&f->rest[0], frames, at);
	at = lend_set_lay_out(&f->rest[1], frames, at);
	return lend_set_lay_out(&f->dirty, frames, at);
}

/* Makes these frames of a block free; none of them is free before. */
static void add_frames(struct lend_store *s, uint32_t block, uint64_t bits)
{
	struct lend_free *f = &s->free;
	uint64_t was = lend_set_word(s, &f->any, block * BLOCK);

	if (!bits)
		return;
	LEND_CHECK((was & bits) == 0);
	lend_set_add_bits(s, &f->any, block * BLOCK, bits);
	if (!was)
		lend_set_add(s, (was | bits) == WHOLE ? &f->whole : &f->part, block);
	else if ((was | bits) == WHOLE) {
		lend_set_remove(s, &f->part, block);
		lend_set_add(s, &f->whole, block);
	}
}

/* Takes these frames of a block; all of them are free before. */
static void cut_frames(struct lend_store *s, uint32_t block, uint64_t bits)
{
	struct lend_free *f = &s->free;
	uint64_t was = lend_set_word(s, &f->any, block * BLOCK);

	LEND_CHECK((was & bits) == bits);
	lend_set_remove_bits(s, &f->any, block * BLOCK, bits);
	if (was == WHOLE)
		lend_set_remove(s, &f->whole, block);
	if (was == WHOLE && was != bits)
		lend_set_add(s, &f->part, block);
	else if (was != WHOLE && was == bits)
		lend_set_remove(s, &f->part, block);
}

/* Applies add or cut to all blocks of the run. */
static void run_each(struct lend_store *s, void (*to)(struct lend_store *, uint32_t, uint64_t))
{
	uint32_t end = s->free.first + s->free.n;

	for (uint32_t i = s->free.first, n; i < end; i += n) {
		n = lend_min_u32(BLOCK - i % BLOCK, end - i);
		to(s, i / BLOCK, WHOLE >> (BLOCK - n) << i % BLOCK);
	}
}

void lend_free_clear(struct lend_store *s)
{
	struct lend_free *f = &s->free;

	lend_set_clear(s, &f->any);
	lend_set_clear(s, &f->part);
	lend_set_clear(s, &f->whole);
	lend_set_clear(s, &f->rest[0]);
	lend_set_clear(s, &f->rest[1]);
	lend_set_clear(s, &f->dirty);
}

void lend_free_init(struct lend_store *s, uint32_t first)
{
	struct lend_free *f = &s->free;

	f->first = first;
	f->n = s->frame.cap + 1 - first;
	run_each(s, add_frames);
	f->young = f->first = f->n = f->want = f->hole = f->gap = f->turn = 0;
	memset(f->claim, 0, sizeof(f->claim));
}

/* Returns the claim of a space for its frames from a page on; NULL: there is none. */
static struct lend_claim *find_claim(struct lend_free *f, uint32_t space, uint32_t page)
{
	for (int i = 0; space && i < LEND_CLAIMS; i++)
		if (f->claim[i].space == space && f->claim[i].page == page)
			return &f->claim[i];
	return NULL;
}

void lend_free_expect(struct lend_store *s, const struct lend_expected *e)
{
	struct lend_free *f = &s->free;
	struct lend_claim *claim = find_claim(f, e->space, e->page);
	uint32_t beside = claim ? claim->first - 1 : e->beside;

	if (f->n)
		run_each(s, add_frames);
	f->want = (uint32_t)lend_min_u64(e->n, s->frame.cap);
	f->space = e->space;
	f->page = e->page;
	f->more = claim || !e->space ? 0 : (uint32_t)lend_min_u64(e->more, s->frame.cap - f->want);
	f->n = 0;
	f->first = beside + 1;
	if (beside && beside < s->frame.cap)
		f->n = lend_set_run(s, &f->any, f->first, f->want);
	if (f->n)
		run_each(s, cut_frames);
	if (claim) {
		claim->first = lend_min_u32(claim->first + f->n, claim->end);
		claim->page += f->want;
	}
}

/* Returns the first block at or after from; wraps around at the end. */
static uint32_t next_block(const struct lend_store *s, const struct lend_set *set, uint32_t from)
{
	uint32_t block = lend_set_next(s, set, from);

	return block == LEND_SET_NONE ? lend_set_next(s, set, 0) : block;
}

/* Finds one frame: in the block that the last single one came from, or in another. There is a free
 * frame. */
static void find_one(struct lend_store *s)
{
	struct lend_free *f = &s->free;
	uint64_t word = lend_set_word(s, &f->any, f->hole * BLOCK);

	if (!word || word == WHOLE) {
		f->hole = lend_set_next(s, f->part.n ? &f->part : &f->whole, 0);
		word = lend_set_word(s, &f->any, f->hole * BLOCK);
	}
	f->first = f->hole * BLOCK + (uint32_t)__builtin_ctzll(word);
	f->n = 1;
}

/* Returns the bits at which n adjacent set bits begin; 1 <= n < 64. */
static uint64_t run_starts(uint64_t word, uint32_t n)
{
	for (uint32_t have = 1, step; have < n; have += step) {
		step = lend_min_u32(have, n - have);
		word &= word >> step;
	}
	return word;
}

/* Finds a gap of n frames in a partly free block. */
static bool find_gap(struct lend_store *s, uint32_t n)
{
	struct lend_free *f = &s->free;
	uint32_t looks = lend_min_u32(LOOKS + n, f->part.n);

	for (uint32_t block = f->gap; looks > 0; looks--, block++) {
		uint64_t found;

		block = next_block(s, &f->part, block);
		found = run_starts(lend_set_word(s, &f->any, block * BLOCK), n);
		if (!found)
			continue;
		f->gap = block;
		f->first = block * BLOCK + (uint32_t)__builtin_ctzll(found);
		f->n = n;
		return true;
	}
	return false;
}

/* Returns the end of the claim that has some of a block, rounded up to a block; or the block, and
 * limits *run to the blocks before the next claim. */
static uint32_t skip_claim(const struct lend_free *f, uint32_t block, uint32_t *run)
{
	for (int i = 0; i < LEND_CLAIMS; i++) {
		uint32_t first = f->claim[i].first / BLOCK;
		uint32_t end = (f->claim[i].end + BLOCK - 1) / BLOCK;

		if (f->claim[i].first == f->claim[i].end || block >= end)
			continue;
		if (block >= first)
			return end;
		*run = lend_min_u32(*run, first - block);
	}
	return block;
}

/* Finds entirely free blocks for n frames: the longest adjacent run of those examined, at most as
 * many as wanted. Returns its number of blocks, and its first frame in f->first. */
static uint32_t longest_blocks(struct lend_store *s, uint32_t n)
{
	struct lend_free *f = &s->free;
	uint32_t want = (n + BLOCK - 1) / BLOCK, most = 0, looks = LOOKS + n / 4;
	uint32_t block = f->whole.n ? lend_set_next(s, &f->whole, 0) : LEND_SET_NONE;

	for (uint32_t run, past; block != LEND_SET_NONE && looks > 0 && most < want; looks--) {
		run = lend_set_run(s, &f->whole, block, want);
		past = skip_claim(f, block, &run);
		if (past == block && run > most) {
			most = run;
			f->first = block * BLOCK;
		}
		block = lend_set_next(s, &f->whole, past == block ? block + run : past);
	}
	return most;
}

/* Finds entirely free blocks for n frames, and for those that are needed later if one run has room
 * for all. Claims yield to an object that finds no other place for n frames in one run. */
static bool find_blocks(struct lend_store *s, uint32_t n)
{
	struct lend_free *f = &s->free;
	uint32_t most = f->more ? longest_blocks(s, n + f->more) * BLOCK : 0;
	bool claims = most && most >= n + f->more;

	if (most < n)
		most = longest_blocks(s, n) * BLOCK;
	if (most < n) {
		memset(f->claim, 0, sizeof(f->claim));
		most = longest_blocks(s, n) * BLOCK;
	}
	f->n = lend_min_u32(most, n);
	if (claims)
		f->claim[f->turn++ % LEND_CLAIMS] = (struct lend_claim){
		    f->first + n, f->first + n + f->more, f->space, f->page + n};
	f->more = 0;
	return most > 0;
}

/* Finds the next run of frames, at most as long as wanted. There is a free frame. */
static void find_run(struct lend_store *s)
{
	uint32_t n = s->free.want;

	if (n <= 1) {
		find_one(s);
		return;
	}
	if ((n < BLOCK && find_gap(s, n)) || find_blocks(s, n))
		return;
	for (n = lend_min_u32(n / 2, BLOCK / 2); n > 1; n /= 2)
		if (find_gap(s, n))
			return;
	find_one(s);
}

/* Takes a frame from quarantine, when no other frame is free; from the older set first. */
static uint32_t take_resting(struct lend_store *s)
{
	struct lend_free *f = &s->free;
	struct lend_set *set = &f->rest[f->rest[!f->young].n ? !f->young : f->young];
	uint32_t i = set->n ? lend_set_next(s, set, 0) : 0;

	if (i)
		lend_set_remove(s, set, i);
	return i;
}

uint32_t lend_free_take(struct lend_store *s)
{
	struct lend_free *f = &s->free;

	if (!f->n) {
		if (!f->any.n)
			return take_resting(s);
		find_run(s);
		if (f->n > 1)
			run_each(s, cut_frames);
		else
			cut_frames(s, f->first / BLOCK, UINT64_C(1) << f->first % BLOCK);
	}
	f->n--;
	f->want -= f->want > 0;
	return f->first++;
}

void lend_free_add(struct lend_store *s, uint32_t frame)
{
	add_frames(s, frame / BLOCK, UINT64_C(1) << frame % BLOCK);
}

void lend_free_quarantine(struct lend_store *s, uint32_t frame)
{
	lend_set_add(s, &s->free.rest[s->free.young], frame);
}

/* Frames in the older set were freed before the last swap of the sets, so they have been in
 * quarantine since then at least; no frame stores a time. The sets swap when the older one is
 * empty. */
void lend_free_end_quarantine(struct lend_store *s, lend_ns now)
{
	struct lend_free *f = &s->free;
	struct lend_set *old = &f->rest[!f->young];

	if (!s->config.quarantine || now - s->guard < s->config.quarantine)
		return;
	for (uint32_t n = 0, i = 0; old->n > 0 && n < WAKES; n++) {
		uint64_t bits;

		i = lend_set_next(s, old, i);
		bits = lend_set_word(s, old, i);
		lend_set_remove_bits(s, old, i, bits);
		add_frames(s, i / BLOCK, bits);
	}
	if (old->n > 0)
		return;
	f->young = !f->young;
	s->guard = now;
}

static bool has_block(const struct lend_store *s, const struct lend_set *set, uint32_t i)
{
	return lend_set_word(s, set, i) >> i % BLOCK & 1;
}

bool lend_free_has(const struct lend_store *s, uint32_t frame)
{
	return frame - s->free.first < s->free.n || has_block(s, &s->free.any, frame) ||
	       has_block(s, &s->free.rest[0], frame) || has_block(s, &s->free.rest[1], frame);
}

bool lend_free_is_sound(const struct lend_store *s)
{
	const struct lend_free *f = &s->free;
	uint32_t any = 0, rest[2] = {0, 0}, part = 0, whole = 0;

	for (uint32_t block = 0; block <= f->any.last / BLOCK; block++) {
		uint64_t a = lend_set_word(s, &f->any, block * BLOCK);
		uint64_t r = lend_set_word(s, &f->rest[0], block * BLOCK);
		uint64_t q = lend_set_word(s, &f->rest[1], block * BLOCK);

		if ((a & r) | (a & q) | (r & q) || has_block(s, &f->whole, block) != (a == WHOLE) ||
		    has_block(s, &f->part, block) != (a && a != WHOLE))
			return false;
		any += (uint32_t)__builtin_popcountll(a);
		rest[0] += (uint32_t)__builtin_popcountll(r);
		rest[1] += (uint32_t)__builtin_popcountll(q);
		part += a && a != WHOLE;
		whole += a == WHOLE;
	}
	return any == f->any.n && rest[0] == f->rest[0].n && rest[1] == f->rest[1].n &&
	       part == f->part.n && whole == f->whole.n;
}

/* record_open - datagrams that arrive: which keys, opened as a burst, then judged in order.
 * Layer: seal (pure). */
#include "seal/record_keys.h"
#include "util/bits.h"
#include "util/check.h"
#include "util/crc32c.h"

enum { BURST = 32, FETCHED = 4 * 64 };

/* A sealed datagram of the burst. */
struct record {
	struct lend_record_keys *keys;
	struct lend_epoch_keys *epoch;
	uint64_t number;
	uint8_t byte; /* of the epoch */
};

/* The burst, as the passes hand it on: job j opens in[entry[j]]. */
struct opening {
	struct lend_records *r;
	const struct lend_records_path *path;
	lend_ns now;
	struct lend_in *in;
	uint32_t jobs;
	uint8_t entry[BURST];
	struct record record[BURST];
	struct lend_seal_job job[BURST];
};

static struct lend_pkt head_of(const struct lend_in *in)
{
	struct lend_pkt head;

	memcpy(&head, in->data, sizeof(head));
	return head;
}

/* Removes the CRC32C of a datagram, if it is right. */
static bool strip_checksum(struct opening *o, struct lend_in *in)
{
	uint32_t len = in->len - LEND_RECORD_TRAILER;

	if (o->path->checked)
		return true;
	if (in->len < LEND_RECORD_TRAILER || !lend_pkt_whole(in->data, len)) {
		o->r->stats.rx_corrupt++;
		return false;
	}
	in->len = len;
	return true;
}

/* Judges a datagram that is not sealed. */
static bool take_clear(struct opening *o, struct lend_in *in)
{
	struct lend_records *r = o->r;
	struct lend_pkt head;

	if (!strip_checksum(o, in))
		return false;
	if (in->len < sizeof(head))
		return true; /* the core counts it */
	head = head_of(in);
	if (!lend_record_is_bare(head.kind)) {
		if (!o->path->least && !lend_record_keys_of(r, head.session))
			return true;
		r->stats.rx_clear++;
		return false;
	}
	if (!r->calls.shake_in || head.kind == LEND_PKT_RESET || head.kind == LEND_PKT_BYE_ACK ||
	    head.kind == LEND_PKT_PROOF)
		return true;
	if (r->calls.shake_in(r->calls.arg, o->now, in))
		return true;
	r->stats.rx_refused++;
	return false;
}

/* Finds the keys of a sealed datagram. */
static bool find_keys(struct opening *o, const struct lend_in *in, struct lend_pkt *head,
		      struct record *record)
{
	struct lend_records *r = o->r;

	record->byte = (uint8_t)(head->number >> 56);
	record->keys = lend_record_keys_of(r, head->session);
	if (!record->keys) {
		if (r->calls.stray)
			r->calls.stray(r->calls.arg, in);
		return false;
	}
	record->epoch = lend_record_keys_find(r, record->keys, record->byte, o->now);
	if (!record->epoch)
		r->stats.rx_epoch++;
	record->number = head->number & (UINT64_MAX >> 8);
	return record->epoch;
}

static inline void fetch_keys(const struct lend_epoch_keys *epoch)
{
	for (uint32_t at = 0; at < FETCHED; at += 64)
		__builtin_prefetch((const uint8_t *)epoch->expanded + at);
}

/* Prepares a sealed datagram to be opened. */
static bool add_record(struct opening *o, uint32_t i)
{
	struct lend_in *in = &o->in[i];
	struct lend_seal_job *job = &o->job[o->jobs];
	struct record *record = &o->record[o->jobs];
	struct lend_pkt head;
	uint32_t len = in->len - (uint32_t)sizeof(head) - LEND_RECORD_TRAILER;

	if (in->len < sizeof(head) + LEND_RECORD_TRAILER ||
	    lend_record_is_bare((head = head_of(in)).kind)) {
		o->r->stats.rx_forged++;
		return false;
	}
	if (!find_keys(o, in, &head, record))
		return false;
	if (o->jobs == 0 || record->epoch != record[-1].epoch)
		fetch_keys(record->epoch);
	lend_record_nonce(job->nonce, record->epoch->iv, record->number);
	job->key = record->epoch->expanded;
	job->at = (uint8_t *)(uintptr_t)in->data;
	job->ad_len = sizeof(head);
	job->len = len;
	job->parts = 0;
	if (record->keys->level == LEND_LEVEL_AUTHENTICATE) {
		job->ad_len += len;
		job->len = 0;
	}
	o->entry[o->jobs++] = (uint8_t)i;
	return true;
}

/* Opens the records, in runs of one suite. */
static void open_jobs(struct opening *o)
{
	for (uint32_t i = 0, end; i < o->jobs; i = end) {
		const struct lend_suite_ops *suite = o->record[i].keys->suite;

		for (end = i + 1; end < o->jobs && o->record[end].keys->suite == suite; end++)
			;
		suite->open(&o->job[i], end - i);
	}
}

static void count_forged(struct lend_records *r, struct lend_record_keys *k)
{
	uint64_t most = r->limits.failures_max ? r->limits.failures_max : LEND_FAILURES_MAX;

	r->stats.rx_forged++;
	if (++k->failures == most && r->calls.spent)
		r->calls.spent(r->calls.arg, k->session);
}

/* Judges an opened record, and gives it the form in which the core has it. */
static bool accept_record(struct opening *o, uint32_t j)
{
	struct lend_records *r = o->r;
	struct lend_record_keys *k = o->record[j].keys;
	struct lend_seal_job *job = &o->job[j];
	struct lend_in *in = &o->in[o->entry[j]];
	uint8_t *head = job->at;

	if (!lend_equal_ct(job->tag, job->at + job->ad_len + job->len, LEND_TAG)) {
		count_forged(r, k);
		return false;
	}
	if (!lend_replay_admit(&k->rx_numbers, o->record[j].number)) {
		r->stats.rx_replayed++;
		return false;
	}
	if (lend_record_keys_is_next(k, o->record[j].byte))
		lend_record_keys_follow(r, k, o->now);
	head[offsetof(struct lend_pkt, flags)] &= (uint8_t)~LEND_PKT_ENCRYPTED;
	lend_store_u64(head + offsetof(struct lend_pkt, number), o->record[j].number);
	in->len -= LEND_RECORD_TRAILER;
	r->stats.opened++;
	return true;
}

/* False for datagrams of other protocols and versions: none of them may cause a RESET. */
static bool is_sealed(const struct lend_in *in)
{
	const uint8_t *at = in->data;

	return in->len > offsetof(struct lend_pkt, flags) && !in->body &&
	       at[offsetof(struct lend_pkt, flags)] & LEND_PKT_ENCRYPTED &&
	       at[offsetof(struct lend_pkt, magic)] == LEND_PKT_MAGIC &&
	       at[offsetof(struct lend_pkt, version)] == LEND_PKT_VERSION;
}

/* Keeps the datagrams that are in order, without gaps. */
static uint32_t keep_good(struct opening *o, const bool *good, uint32_t n)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!good[i])
			continue;
		if (kept != i)
			o->in[kept] = o->in[i];
		kept++;
	}
	return kept;
}

static uint32_t open_burst(struct opening *o, uint32_t n)
{
	bool good[BURST];

	o->jobs = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct lend_in *in = &o->in[i];

		if (in->gone && in->len == 0)
			good[i] = true;
		else
			good[i] = is_sealed(in) ? add_record(o, i) : take_clear(o, in);
	}
	open_jobs(o);
	for (uint32_t j = 0; j < o->jobs; j++)
		good[o->entry[j]] = accept_record(o, j);
	return keep_good(o, good, n);
}

uint32_t lend_records_open(struct lend_records *r, const struct lend_records_path *path,
			   lend_ns now, struct lend_in *in, uint32_t n)
{
	struct opening o;

	LEND_CHECK(n <= BURST);
	o.r = r;
	o.path = path;
	o.now = now;
	o.in = in;
	return open_burst(&o, n);
}

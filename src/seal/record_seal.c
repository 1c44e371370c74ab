/* record_seal - datagrams that leave: gathered with a nonce each, then sealed as a burst.
 * Layer: seal (pure). */
#include "seal/record_keys.h"
#include "util/bits.h"
#include "util/check.h"
#include "util/crc32c.h"

enum { BURST = 32, LINE = 64, LIST_MIN = 4096, PARTS = 6 };
/* Bits of the flags in the first word of a head, and of the epoch in its number. */
enum { FLAGS_SHIFT = 8 * offsetof(struct lend_pkt, flags), EPOCH_SHIFT = 56 };

struct sealing {
	struct lend_records *r;
	const struct lend_records_path *path;
	lend_ns now;
	const struct lend_bufs *bufs;
	struct lend_records_memory room;
	uint32_t jobs;
	const struct lend_suite_ops *suite[BURST];
	struct lend_part part[PARTS]; /* pieces of the long datagram that is sealed next */
	struct lend_seal_job job[BURST];
};

static uint32_t out_len(const struct lend_out *out)
{
	uint32_t len = (uint32_t)out->head_len + out->tail_len;

	for (uint32_t i = 0; i < out->n; i++)
		len += out->piece[i].len;
	return len;
}

static const uint8_t *piece_at(const struct sealing *s, const struct lend_piece *p)
{
	return (const uint8_t *)s->bufs->seg[p->buf].data + p->offset;
}

static uint8_t kind_of(const struct lend_out *out)
{
	return ((const uint8_t *)out->head)[offsetof(struct lend_pkt, kind)];
}

/* Returns the keys of a datagram's session; NULL: it has none. */
static struct lend_record_keys *keys_of(const struct lend_records *r, const struct lend_out *out)
{
	struct lend_record_keys *k = out->sess < r->sessions ? r->of[out->sess] : NULL;

	return k && k->peer_id == lend_pkt_session(out->head) ? k : NULL;
}

/* Appends a CRC32C to a datagram that is not sealed. */
static void add_checksum(struct sealing *s, struct lend_out *out)
{
	struct lend_pkt_trailer trailer = {0};
	uint8_t *tail = s->room.at;

	if (s->path->checked)
		return;
	trailer.crc = lend_crc32c(0, out->head, out->head_len);
	for (uint32_t i = 0; i < out->n; i++)
		trailer.crc =
		    lend_crc32c(trailer.crc, piece_at(s, &out->piece[i]), out->piece[i].len);
	if (out->tail_len) {
		trailer.crc = lend_crc32c(trailer.crc, out->tail, out->tail_len);
		memcpy(tail, out->tail, out->tail_len);
	}
	memcpy(tail + out->tail_len, &trailer, sizeof(trailer));
	out->tail = tail;
	out->tail_len = (uint8_t)(out->tail_len + sizeof(trailer));
	s->room.at += lend_align_up(out->tail_len, LINE);
}

/* Passes on a datagram that is not sealed. False: it must not leave. */
static bool give_clear(struct sealing *s, struct lend_out *out)
{
	struct lend_records *r = s->r;
	uint8_t kind = kind_of(out);

	if (!lend_record_is_bare(kind) && s->path->least) {
		r->stats.tx_clear++;
		return false;
	}
	if ((kind == LEND_PKT_CONNECT || kind == LEND_PKT_ACCEPT) && r->calls.shake_out &&
	    !r->calls.shake_out(r->calls.arg, s->now, s->bufs, out))
		return false;
	add_checksum(s, out);
	return true;
}

/* New keys are due: takes them once the peer has shown that it has the present ones. */
static __attribute__((noinline)) void update_keys(struct sealing *s, struct lend_record_keys *k)
{
	if (s->r->calls.acked(s->r->calls.arg, k->session) >= k->tx_first)
		lend_record_keys_advance(s->r, k, s->now);
}

/* Takes the number of a datagram, which is sealed once. Returns the keys for it. */
static struct lend_epoch_keys *take_number(struct sealing *s, struct lend_record_keys *k,
					   uint64_t number)
{
	if (k->tx_left == 0 || s->now >= k->tx_until)
		update_keys(s, k);
	LEND_CHECK(number >> LEND_PKT_NUMBER_BITS == 0);
	LEND_CHECK(lend_replay_admit(&k->tx_numbers, number));
	k->tx_left -= k->tx_left > 0;
	return &k->tx[k->tx_at];
}

/* Lists the parts of the text that are not empty. Returns their number. */
static uint32_t list_text(struct sealing *s, const struct lend_out *out)
{
	uint32_t rest = out->head_len - (uint32_t)sizeof(struct lend_pkt), n = 0;

	if (rest)
		s->part[n++] =
		    (struct lend_part){(const uint8_t *)out->head + sizeof(struct lend_pkt), rest};
	for (uint32_t i = 0; i < out->n; i++)
		s->part[n++] = (struct lend_part){piece_at(s, &out->piece[i]), out->piece[i].len};
	if (out->tail_len)
		s->part[n++] = (struct lend_part){out->tail, out->tail_len};
	return n;
}

static void copy_parts(const struct lend_part *part, uint32_t n, uint8_t *to)
{
	for (; n-- > 0; to += part++->len)
		lend_copy_short(to, part->data, part->len);
}

/* Tells the suite where the text is, which it copies as it seals. Several short parts, and what is
 * not encrypted, are copied here. Returns whether the list of parts is in use. */
static inline bool gather_text(struct sealing *s, const struct lend_out *out,
			       struct lend_seal_job *job, const struct lend_record_keys *k)
{
	bool reads = k->level == LEND_LEVEL_ENCRYPT;
	uint32_t n;

	job->parts = 0;
	if (out->lengths == out->head_len && reads) {
		job->text = (const uint8_t *)out->head + sizeof(struct lend_pkt);
		return false;
	}
	n = list_text(s, out);
	job->text = n == 1 && reads ? s->part[0].data : NULL;
	if (n > 1 && reads && job->len >= LIST_MIN && k->suite->gathers) {
		job->part = s->part;
		job->parts = n;
		return true;
	}
	if (!job->text)
		copy_parts(s->part, n, job->at + sizeof(struct lend_pkt));
	return false;
}

static void seal_jobs(struct sealing *s)
{
	for (uint32_t i = 0, end; i < s->jobs; i = end) {
		for (end = i + 1; end < s->jobs && s->suite[end] == s->suite[i]; end++)
			;
		s->suite[i]->seal(&s->job[i], end - i);
	}
	s->jobs = 0;
}

/* Writes the head of a record, and its nonce. Returns the keys for it. Each half of the head is one
 * store: a cipher that loads 16 bytes right behind stores of single fields would wait for them. */
static inline const struct lend_epoch_keys *put_head(struct sealing *s, const struct lend_out *out,
						     struct lend_record_keys *k,
						     struct lend_seal_job *job)
{
	const uint8_t *from = out->head;
	uint64_t number = lend_load_u64(from + offsetof(struct lend_pkt, number));
	const struct lend_epoch_keys *epoch = take_number(s, k, number);
	uint64_t half[2][2] = {
	    {lend_load_u64(from) | (uint64_t)LEND_PKT_ENCRYPTED << FLAGS_SHIFT, k->peer_id},
	    {number | k->tx_epoch << EPOCH_SHIFT, lend_load_u64(from + 24)}};

	lend_copy_part(s->room.at, (const uint8_t *)half[0]);
	lend_copy_part(s->room.at + 16, (const uint8_t *)half[1]);
	lend_record_nonce(job->nonce, epoch->iv, number);
	job->at = s->room.at;
	return epoch;
}

/* Adds a datagram of a session with keys. */
static void add_record(struct sealing *s, struct lend_out *out, struct lend_record_keys *k,
		       uint32_t len)
{
	struct lend_seal_job *job = &s->job[s->jobs];
	bool lists;

	LEND_CHECK(len + LEND_RECORD_TRAILER <= UINT16_MAX);
	job->key = put_head(s, out, k, job)->expanded;
	job->ad_len = sizeof(struct lend_pkt);
	job->len = len - (uint32_t)sizeof(struct lend_pkt);
	lists = gather_text(s, out, job, k);
	if (k->level == LEND_LEVEL_AUTHENTICATE) {
		job->ad_len = len;
		job->len = 0;
	}
	/* Behind a later number, a late one may be too old for the window or the keys. */
	if (s->path->lossless)
		out->fast = 0;
	s->suite[s->jobs++] = k->suite;
	out->head = job->at;
	out->lengths = len + LEND_RECORD_TRAILER; /* one head: no tail, no piece */
	out->tail = NULL;
	s->room.at += lend_align_up(len + LEND_RECORD_TRAILER, LINE);
	s->r->stats.sealed++;
	if (lists)
		seal_jobs(s); /* the list is used again */
}

enum added { ADDED, NO_ROOM, REFUSED };

static enum added add_datagram(struct sealing *s, struct lend_out *out)
{
	struct lend_record_keys *k = lend_record_is_bare(kind_of(out)) ? NULL : keys_of(s->r, out);
	uint32_t len = k ? out_len(out) : UINT8_MAX;

	if (lend_records_room(len) > (size_t)(s->room.end - s->room.at))
		return NO_ROOM;
	if (!k)
		return give_clear(s, out) ? ADDED : REFUSED;
	add_record(s, out, k, len);
	return ADDED;
}

static uint32_t seal_burst(struct sealing *s, struct lend_out *out, uint32_t n)
{
	enum added added = ADDED;
	uint32_t i;

	for (i = 0; i < n && added == ADDED; i += added == ADDED)
		added = add_datagram(s, &out[i]);
	seal_jobs(s);
	if (i == 0 && added == REFUSED)
		out->sent = LEND_SENT_DEAD;
	LEND_CHECK(i > 0 || added == REFUSED);
	return i;
}

uint32_t lend_records_seal(struct lend_records *r, const struct lend_records_path *path,
			   lend_ns now, const struct lend_bufs *bufs,
			   struct lend_records_memory room, struct lend_out *out, uint32_t n)
{
	struct sealing s;

	s.r = r;
	s.path = path;
	s.now = now;
	s.bufs = bufs;
	s.room = room;
	s.jobs = 0;
	LEND_CHECK(n <= BURST);
	return seal_burst(&s, out, n);
}

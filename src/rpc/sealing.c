#include "rpc/sealing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/endpoint.h"
#include "rpc/keys.h"
#include "rpc/sealed_sessions.h"
#include "seal/record_keys.h"
#include "seal/noise.h"
#include "sys/last_error.h"
#include "sys/secret_memory.h"
#include "util/bits.h"

enum {
	TX_ROOM = 256 << 10, /* one datagram of 64 KiB at least */
	LINE = 64,
	CHUNK = 64 << 10,
	DATAGRAM_MAX = UINT16_MAX - 2 * LEND_RECORD_TRAILER,
};

static bool add_chunk(struct lend_sealing *s)
{
	size_t each = lend_align_up(sizeof(struct lend_record_keys), LINE) +
		      LEND_RECORD_EXPANDED * LEND_EXPANDED_MAX;
	struct lend_mapping *m = &s->chunk[s->chunks];

	if (s->chunks == LEND_KEY_CHUNKS || lend_secret_map(m, CHUNK) < 0)
		return false;
	s->chunks++;
	for (size_t at = 0; at + each <= m->len; at += each) {
		void **block = (void **)(void *)((uint8_t *)m->base + at);

		*block = s->keys;
		s->keys = block;
	}
	return true;
}

static void *take_keys(void *arg, size_t len)
{
	struct lend_sealing *s = &((struct lend_ep *)arg)->sealing;
	void **block;

	if (!s->keys && !add_chunk(s))
		return NULL;
	block = s->keys;
	s->keys = *block;
	memset(block, 0, len);
	return block;
}

static void give_keys(void *arg, void *memory, size_t len)
{
	struct lend_sealing *s = &((struct lend_ep *)arg)->sealing;
	void **block = memory;

	(void)len;
	*block = s->keys;
	s->keys = block;
}

static uint64_t acked_by(void *arg, uint64_t session)
{
	return lend_core_session_acked(((struct lend_ep *)arg)->core, session);
}

static void answer_stray(void *arg, const struct lend_in *in)
{
	struct lend_ep *ep = arg;

	lend_core_stray(ep->core, ep->now, in);
}

static void end_spent(void *arg, uint64_t session)
{
	lend_core_disconnect(((struct lend_ep *)arg)->core, session);
}

int lend_sealing_open(struct lend_ep *ep)
{
	const struct lend_records_calls calls = {.take = take_keys,
						 .give = give_keys,
						 .acked = acked_by,
						 .stray = answer_stray,
						 .spent = end_spent,
						 .arg = ep};
	struct lend_sealing *s = &ep->sealing;
	uint32_t n = ep->core_config.sessions;

	if (lend_mapping_map_sparse(&s->table, n * sizeof(*s->records.of)) < 0)
		return -ENOMEM;
	lend_records_begin(&s->records, NULL, &calls, s->table.base, n);
	return 0;
}

void lend_sealing_close(struct lend_ep *ep)
{
	struct lend_sealing *s = &ep->sealing;

	lend_records_end(&s->records);
	lend_mapping_unmap(&s->table);
	lend_mapping_unmap(&s->tx);
	for (uint32_t c = 0; c < LEND_CARRIERS_MAX; c++)
		lend_mapping_unmap(&s->rx[c]);
	while (s->chunks)
		lend_secret_unmap(&s->chunk[--s->chunks]);
}

int lend_sealing_add(struct lend_ep *ep, uint32_t carrier, const char *address,
		     const struct lend_path *path, struct lend_path *to)
{
	struct lend_sealing *s = &ep->sealing;
	uint8_t level = lend_level_rules_of(&s->rules, address);

	*to = *path;
	if (path->checked && level == LEND_LEVEL_NONE)
		return 0;
	if (!s->tx.base && lend_mapping_map_sparse(&s->tx, TX_ROOM) < 0)
		return -ENOMEM;
	to->checked = true;
	to->mtu = lend_min_u32(path->mtu, DATAGRAM_MAX) - LEND_RECORD_TRAILER;
	if (level != LEND_LEVEL_NONE)
		to->shares = 0;
	if (level != LEND_LEVEL_NONE && !path->writable &&
	    lend_mapping_map_sparse(&s->rx[carrier], (size_t)LEND_BURST * path->mtu) < 0)
		return -ENOMEM;
	if (level != LEND_LEVEL_NONE) {
		int rc = lend_sealed_prepare(ep, carrier, level);

		if (rc < 0)
			return rc;
	}
	s->path[carrier] = (struct lend_records_path){
	    .checked = path->checked, .lossless = path->lossless, .least = level};
	s->carriers |= (uint8_t)(1u << carrier);
	return 0;
}

/* Copies datagrams that are in memory of others, or that must not be written. */
static void copy_burst(struct lend_ep *ep, uint32_t carrier, struct lend_in *in, uint32_t n)
{
	uint8_t *at = ep->sealing.rx[carrier].base;
	uint32_t most = ep->carrier[carrier].io->path.mtu;

	for (uint32_t i = 0; i < n; i++, at += most) {
		in[i].len = lend_min_u32(in[i].len, most);
		if (in[i].len)
			memcpy(at, in[i].data, in[i].len);
		in[i].data = at;
	}
}

uint32_t lend_sealing_rx(struct lend_ep *ep, uint32_t carrier, struct lend_in *in, uint32_t n)
{
	struct lend_sealing *s = &ep->sealing;

	if (ep->shake.kex)
		lend_shake_burst(&ep->shake);
	if (s->rx[carrier].base)
		copy_burst(ep, carrier, in, n);
	return lend_records_open(&s->records, &s->path[carrier], ep->now, in, n);
}

void lend_sealing_tx(struct lend_ep *ep, uint32_t carrier, struct lend_out *out, uint32_t n)
{
	struct lend_sealing *s = &ep->sealing;
	struct lend_io *io = ep->carrier[carrier].io;
	const struct lend_records_memory room = {s->tx.base, (uint8_t *)s->tx.base + s->tx.len};

	for (uint32_t i = 0, ready; i < n; i += ready ? ready : 1) {
		ready = lend_records_seal(&s->records, &s->path[carrier], ep->now, &ep->bufs->table,
					  room, out + i, n - i);
		if (ready)
			io->ops->tx(io, &ep->bufs->table, out + i, ready);
	}
}

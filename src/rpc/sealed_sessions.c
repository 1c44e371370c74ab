#include "rpc/sealed_sessions.h"

#include <errno.h>
#include <string.h>

#include "rpc/endpoint.h"
#include "rpc/key_log.h"
#include "rpc/keys.h"
#include "seal/record_keys.h"
#include "sys/last_error.h"

/* Returns the number of the public key of our session's server. */
static uint32_t server_of(const struct lend_ep *ep, uint64_t core)
{
	uint32_t i = ep->by_core[core & 0xffffff];

	return i ? ep->session[i - 1].server : 0;
}

static bool find_keys(void *arg, const struct lend_pkt_connect *b, bool client,
		      struct lend_kex_keys *keys)
{
	struct lend_ep *ep = arg;
	bool known = lend_keys_exchange(b->key_id, keys);

	if (b->pattern != LEND_PATTERN_NK)
		return known;
	if (client)
		return lend_keys_of_server(server_of(ep, b->session), keys) && known;
	return lend_keys_own(keys) && known;
}

/* Installs the keys of both directions. Without memory for them nothing of the session is sent or
 * received, and it ends by silence. */
static void install_keys(void *arg, const struct lend_kex_result *r)
{
	struct lend_ep *ep = arg;
	struct lend_seal_keys keys = {
	    .session = r->session, .peer_id = r->peer_id, .suite = r->suite, .level = r->level};

	memcpy(keys.tx, r->client ? r->to_server : r->to_client, LEND_KEY);
	memcpy(keys.rx, r->client ? r->to_client : r->to_server, LEND_KEY);
	lend_key_log_put(&keys);
	(void)lend_records_install(&ep->sealing.records, ep->now, &keys);
	explicit_bzero(&keys, sizeof(keys));
}

static bool shake_in(void *arg, lend_ns now, struct lend_in *in)
{
	struct lend_ep *ep = arg;

	return lend_shake_in(&ep->shake, now, in);
}

static bool shake_out(void *arg, lend_ns now, const struct lend_bufs *bufs, struct lend_out *out)
{
	struct lend_ep *ep = arg;

	return lend_shake_out(&ep->shake, now, bufs, out);
}

void lend_sealed_attach(struct lend_ep *ep)
{
	if (!ep->shake.kex)
		return;
	(void)lend_keys_seal(&ep->sealing.records.ops);
	ep->sealing.records.calls.shake_in = shake_in;
	ep->sealing.records.calls.shake_out = shake_out;
	ep->shake.core = ep->core;
	lend_core_set_suites(ep->core, ep->core_config.suites);
}

/* Chooses the key that the endpoint connects with, if it has none: makes the file of keys. */
static int need_key(struct lend_ep *ep)
{
	ep->seal_id = ep->key_id;
	if (ep->key_id)
		return 0;
	if (ep->no_key)
		return lend_fail(EINVAL, "config.secret is \"\", and sessions on a network are "
					 "encrypted: give a secret, or set LEND_LEVEL=none");
	ep->key_of_file = true;
	return lend_keys_make(&ep->seal_id);
}

static int begin_sealing(struct lend_ep *ep)
{
	const struct lend_seal_ops *ops;
	int rc = lend_keys_seal(&ops);

	if (rc < 0)
		return lend_fail(-rc, "sessions on a network are encrypted, which needs "
				      "lend_seal.so (libsodium): install it, or set "
				      "LEND_LEVEL=none");
	rc = need_key(ep);
	if (rc == 0)
		rc = lend_key_log_open();
	if (rc < 0)
		return rc;
	if (lend_shake_open(&ep->shake, lend_key_log_ops(ops), &ep->core_config) < 0)
		return lend_fail(ENOMEM, "no memory for the handshakes of an endpoint");
	ep->shake.find = find_keys;
	ep->shake.done = install_keys;
	ep->shake.arg = ep;
	ep->core_config.suites = lend_suites(ops);
	if (ep->core)
		lend_sealed_attach(ep);
	return 0;
}

int lend_sealed_prepare(struct lend_ep *ep, uint32_t carrier, uint8_t level)
{
	int rc = ep->shake.kex ? 0 : begin_sealing(ep);

	if (rc == 0)
		ep->shake.policy[carrier] =
		    (struct lend_core_policy){ep->core_config.suites, level};
	return rc;
}

void lend_sealed_close(struct lend_ep *ep)
{
	lend_shake_close(&ep->shake);
}

void lend_sealed_propose(struct lend_ep *ep, uint32_t carrier, const char *address,
			 struct lend_core_identity *self)
{
	uint8_t level = ep->shake.kex ? ep->shake.policy[carrier].least : 0;

	if (!level)
		return;
	self->key_id = ep->seal_id;
	self->pattern = lend_keys_server(address) ? LEND_PATTERN_NK : LEND_PATTERN_NN;
	self->suite = lend_suite_best(ep->sealing.records.ops);
	self->level = self->least = level;
}

bool lend_sealed_made(struct lend_ep *ep, const struct lend_event *ev)
{
	return ep->shake.kex && lend_shake_made(&ep->shake, ev);
}

void lend_sealed_ended(struct lend_ep *ep, uint64_t session)
{
	lend_records_remove(&ep->sealing.records, session);
	if (ep->shake.kex)
		lend_kex_forget(ep->shake.kex, session);
}

static void end_removed(struct lend_ep *ep, const struct lend_session_rec *s)
{
	struct lend_core_names names;
	uint8_t psk[LEND_KEY];

	if (s->state != LEND_SESSION_OPEN ||
	    lend_core_session_names(ep->core, s->core, &names) < 0 || !names.key_id)
		return;
	if (!lend_keys_find(names.key_id, psk)) {
		ep->dirty = true;
		lend_core_disconnect(ep->core, s->core);
	}
	explicit_bzero(psk, sizeof(psk));
}

void lend_sealed_reloaded(struct lend_ep *ep)
{
	uint64_t id;

	ep->keys_generation = lend_keys_generation();
	for (uint32_t i = 0; i < ep->session_top; i++)
		end_removed(ep, &ep->session[i]);
	*ep->dialled.address = 0;
	if (!ep->key_of_file || lend_keys_make(&id) < 0)
		return;
	ep->key_id = ep->key_id ? id : 0;
	ep->seal_id = ep->seal_id ? id : 0;
}

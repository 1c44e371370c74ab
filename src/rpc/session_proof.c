/* session_proof - the incarnation that this process shows to each server, and the proofs of a key.
 *
 * A proof is a MAC under the key over CONNECT and ACCEPT. They hold random bytes of both ends, so a
 * copy of either proves nothing. Layer: rpc. Threads: the endpoint's; naming: any. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "rpc/endpoint.h"
#include "rpc/keys.h"
#include "sys/rand.h"
#include "sys/last_error.h"
#include "util/siphash.h"

/* Returns another key in a fork's child. An endpoint copies the key, because getpid() is a system
 * call. */
void lend_handshake_process_key(uint8_t key[16])
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static uint8_t bits[16];
	static pid_t of;

	pthread_mutex_lock(&lock);
	if (of != getpid()) {
		of = getpid();
		lend_random(bits, sizeof(bits));
	}
	memcpy(key, bits, sizeof(bits));
	pthread_mutex_unlock(&lock);
}

void lend_handshake_name(const uint8_t key[16], const char *server, uint8_t incarnation[16])
{
	char text[LEND_NAME_MAX + 1];
	size_t len = server ? strnlen(server, LEND_NAME_MAX) : 0;

	text[0] = server ? 'c' : 's';
	if (len)
		memcpy(text + 1, server, len);
	lend_siphash128(key, text, 1 + len, incarnation);
}

struct lend_core_identity lend_handshake_identity(const struct lend_ep *ep, const char *server)
{
	struct lend_core_identity self = {.key_id = ep->key_id};

	lend_handshake_name(ep->process_key, server, self.incarnation);
	return self;
}

uint64_t lend_handshake_server(const struct lend_ep *ep, const char *address,
			       const struct lend_core_identity *self)
{
	uint64_t name;

	if (address)
		name = lend_siphash64(ep->core_config.seed, address, strlen(address));
	else
		memcpy(&name, self->incarnation, sizeof(name));
	return name + !name;
}

enum { LABEL = 8 };

/* Computes the HMAC-SHA-256 of a label and the handshake's hash. */
static void compute_mac(const struct lend_seal_ops *seal, const uint8_t psk[LEND_KEY],
			const char *label, const uint8_t h[LEND_DIGEST], uint8_t out[16])
{
	uint8_t text[LABEL + LEND_DIGEST] = {0}, digest[LEND_DIGEST];

	memcpy(text, label, strlen(label));
	memcpy(text + LABEL, h, LEND_DIGEST);
	seal->hmac_sha256(psk, text, sizeof(text), digest);
	memcpy(out, digest, 16);
}

void lend_handshake_prove(struct lend_ep *ep, const struct lend_event *ev)
{
	uint8_t psk[LEND_KEY], text[LEND_TRANSCRIPT], h[LEND_DIGEST];
	const struct lend_seal_ops *seal;
	struct lend_core_proof proof;
	bool known;

	if (lend_core_transcript(ep->core, ev, text) < 0)
		return;
	known = lend_keys_find(ev->tag, psk) && lend_keys_seal(&seal) == 0;
	if (known) {
		seal->sha256(text, sizeof(text), h);
		compute_mac(seal, psk, "server", h, proof.tag);
		compute_mac(seal, psk, "client", h, proof.proof);
		compute_mac(seal, psk, "binding", h, proof.binding);
	}
	(void)lend_core_prove(ep->core, lend_ep_now(ep), ev, known ? &proof : NULL);
	explicit_bzero(psk, sizeof(psk));
}

/* Reads the values that both ends of a session know. False: the session is gone, or not up. */
static bool names_of(struct lend_ep *ep, lend_session session, struct lend_core_names *names)
{
	const struct lend_session_rec *s = lend_sessions_find(ep, session);

	return s && s->state == LEND_SESSION_OPEN &&
	       lend_core_session_names(ep->core, s->core, names) == 0;
}

bool lend_handshake_proved(struct lend_ep *ep, lend_session session, uint64_t key_id)
{
	struct lend_core_names names;

	return key_id && names_of(ep, session, &names) && names.key_id == key_id;
}

bool lend_handshake_administers(struct lend_ep *ep, lend_session session)
{
	struct lend_core_names names;
	uint64_t own = ep->seal_id ? ep->seal_id : ep->key_id;

	return own && names_of(ep, session, &names) && names.key_id &&
	       (names.key_id == own || lend_keys_akin(names.key_id, own));
}

uint64_t lend_key_id(const struct lend_ep *ep)
{
	return ep->key_id;
}

bool lend_session_knows(struct lend_ep *ep, lend_session session, const char *secret)
{
	return secret && *secret && lend_handshake_proved(ep, session, lend_keys_id(secret));
}

bool lend_session_tenant(struct lend_ep *ep, lend_session session, char *name, size_t cap)
{
	struct lend_core_names names;
	char tenant[LEND_TENANT_MAX];
	bool found = names_of(ep, session, &names) && lend_keys_tenant(names.key_id, tenant) &&
		     strlen(tenant) < cap;

	if (cap)
		(void)strcpy(name, found ? tenant : "");
	return found;
}

int lend_session_context(struct lend_ep *ep, lend_session session, uint8_t out[32])
{
	static const uint8_t one[16] = "lend context 01", two[16] = "lend context 02";
	struct lend_core_names names;

	if (!names_of(ep, session, &names))
		return lend_fail(ESTALE, "the session has ended, or is not up yet");
	lend_siphash128(one, &names, sizeof(names), out);
	lend_siphash128(two, &names, sizeof(names), out + 16);
	return 0;
}

int lend_accept_secret(const char *secret)
{
	if (!secret || !*secret)
		return lend_fail(EINVAL, "accept secret: the text is empty");
	return lend_keys_add(secret);
}

/* session - the public handles of sessions, and connecting to addresses that take time to resolve.
 *
 * A session has its handle before the core has the session: while its address is being resolved,
 * calls wait in its list. They go to the core, in order, when the session opens, or end
 * UNAVAILABLE. In the list of an open session, calls wait for a slot. Layer: rpc. Threads: the
 * endpoint's. Ownership: the table owns addresses; calls belong to their callers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/keys.h"
#include "rpc/remotes.h"
#include "rpc/sealed_sessions.h"
#include "sys/last_error.h"
#include "util/check.h"
#include "wire/pkt.h"

static uint32_t core_index(uint64_t core)
{
	return (uint32_t)core & 0xffffffu;
}

static void forget_texts(struct lend_session_rec *s)
{
	free(s->address);
	free(s->name);
	free(s->known_more);
	s->address = NULL;
	s->name = NULL;
	s->known = 0;
	s->known_more = NULL;
}

void lend_sessions_close(struct lend_ep *ep)
{
	for (uint32_t i = 0; i < ep->session_top; i++)
		forget_texts(&ep->session[i]);
}

static lend_session handle_of(struct lend_ep *ep, const struct lend_session_rec *s)
{
	return (lend_session){(uint64_t)s->gen << 32 | (uint32_t)(s - ep->session + 1)};
}

static struct lend_session_rec *find_core(struct lend_ep *ep, uint64_t core)
{
	uint32_t i =
	    core_index(core) < ep->core_config.sessions ? ep->by_core[core_index(core)] : 0;

	return i != 0 && ep->session[i - 1].core == core ? &ep->session[i - 1] : NULL;
}

/* Finds a session by its core handle. The core may have reused the index before the end of the
 * session was handled here; then a search over all sessions finds it. */
static struct lend_session_rec *find_ended(struct lend_ep *ep, uint64_t core)
{
	struct lend_session_rec *s = find_core(ep, core);

	if (s || ep->by_core[core_index(core)] == 0)
		return s;
	for (uint32_t i = 0; i < ep->session_top; i++)
		if (ep->session[i].state >= LEND_SESSION_OPEN && ep->session[i].core == core)
			return &ep->session[i];
	return NULL;
}

lend_session lend_sessions_of(struct lend_ep *ep, uint64_t core)
{
	struct lend_session_rec *s = find_core(ep, core);

	return s && s->state == LEND_SESSION_OPEN ? handle_of(ep, s) : (lend_session){0};
}

struct lend_route *lend_sessions_route(struct lend_ep *ep, uint64_t core)
{
	struct lend_session_rec *s = ep->routes ? find_core(ep, core) : NULL;

	return s && s->state == LEND_SESSION_OPEN ? s->route : NULL;
}

static struct lend_session_rec *take_entry(struct lend_ep *ep, enum lend_session_state state)
{
	struct lend_session_rec *s;

	if (ep->session_free == LEND_NONE32 && ep->session_top == ep->n_sessions)
		return NULL;
	if (ep->session_free == LEND_NONE32) {
		s = &ep->session[ep->session_top++];
		s->gen = 1;
	} else {
		s = &ep->session[ep->session_free];
		ep->session_free = s->next;
	}
	*s = (struct lend_session_rec){.gen = s->gen,
				       .state = (uint8_t)state,
				       .samples = lend_trace_samples(ep),
				       .next = LEND_NONE32};
	return s;
}

static void give_entry(struct lend_ep *ep, struct lend_session_rec *s)
{
	forget_texts(s);
	s->state = LEND_SESSION_FREE;
	s->gen += s->gen == UINT32_MAX ? 2 : 1;
	s->next = ep->session_free;
	ep->session_free = (uint32_t)(s - ep->session);
}

/* Binds a session to its core handle. */
static void bind_session(struct lend_ep *ep, struct lend_session_rec *s, uint64_t core)
{
	LEND_CHECK(core_index(core) < ep->core_config.sessions);
	s->core = core;
	s->state = LEND_SESSION_OPEN;
	ep->by_core[core_index(core)] = (uint32_t)(s - ep->session) + 1;
}

void lend_sessions_up(struct lend_ep *ep, const struct lend_event *ev)
{
	struct lend_session_rec *s = find_ended(ep, ev->session);
	uint8_t incarnation[16];
	uint32_t peer;

	if (!s) {
		if (ep->by_core[core_index(ev->session)] != 0 &&
		    lend_core_session_peer(ep->core, ev->session, &peer, incarnation) < 0)
			return; /* the session has ended since, and its index was reused */
		s = take_entry(ep, LEND_SESSION_OPEN);
		if (!s) {
			lend_core_disconnect(ep->core, ev->session);
			return;
		}
		bind_session(ep, s, ev->session);
	}
	s->up = true;
	ep->stats.sessions++;
	(void)lend_core_session_peer(ep->core, ev->session, &peer, s->incarnation);
	if (ep->routes && !s->route)
		s->route = ep->gateways.find(ep, s->incarnation);
	if (ep->watch && s->state == LEND_SESSION_OPEN)
		ep->watch(handle_of(ep, s), s->incarnation, true, ep->watch_arg);
}

/* Ends a session. lend_session_get() accepts its handle while the watch runs, not afterwards. */
static void end_session(struct lend_ep *ep, struct lend_session_rec *s)
{
	if (s->up)
		ep->stats.sessions--;
	if (ep->watch)
		ep->watch(handle_of(ep, s), s->incarnation, false, ep->watch_arg);
	if (s->route)
		ep->gateways.end(ep, s->route);
	if (ep->shown_ops)
		ep->shown_ops->drop(ep, handle_of(ep, s));
	give_entry(ep, s);
}

void lend_sessions_down(struct lend_ep *ep, const struct lend_event *ev)
{
	struct lend_session_rec *s = find_ended(ep, ev->session);

	if (!s)
		return;
	if (ev->status == LEND_UNAVAILABLE && !s->up)
		(void)lend_fail(EHOSTUNREACH,
				ep->shake.kex
				    ? "no answer from the server: is it running, the address "
				      "right, LEND_LEVEL the same, and its key here? (lend keygen "
				      "makes ~/.config/lend/keys: copy it to both hosts)"
				    : "no answer from the server: is it running, and the address "
				      "right?");
	if (ev->status == LEND_UNAUTHENTICATED && !s->up)
		(void)lend_fail(EACCES, "peer requires encryption: copy ~/.config/lend/keys from "
					"it (lend keygen makes one) or set LEND_SECRET, and unset "
					"LEND_LEVEL");
	if (ev->status == LEND_RESOURCE_EXHAUSTED && !s->up)
		(void)lend_fail(ENOSPC,
				"the server has no session free: close some there, or raise "
				"its config.sessions");
	if (find_core(ep, ev->session))
		ep->by_core[core_index(ev->session)] = 0;
	lend_calls_leave(ep, s, (enum lend_status)ev->status);
	end_session(ep, s);
}

static int no_session(const struct lend_ep *ep, const char *address)
{
	return lend_fail(ENOSPC,
			 "%s: all %u sessions are in use; close some or raise config.sessions",
			 address, ep->core_config.sessions);
}

/* Finds the carrier of a server, and the identity that this process shows to it. */
static int find_server(struct lend_ep *ep, const char *address, const char *name,
		       struct lend_core_identity *self, uint32_t *carrier)
{
	struct lend_dialled *last = &ep->dialled;
	int rc;

	if (!name && *address && !strcmp(address, last->address)) {
		*carrier = last->carrier;
		*self = last->self;
		return 0;
	}
	*self = lend_handshake_identity(ep, name ? name : address);
	rc = lend_ep_carrier(ep, address, carrier);
	if (rc == 0 && !name && strlen(address) < sizeof(last->address)) {
		strcpy(last->address, address);
		last->carrier = *carrier;
		last->self = *self;
	}
	return rc;
}

/* Returns whether this is an address of the endpoint itself. */
static bool is_own_address(struct lend_ep *ep, const char *address)
{
	char all[1024], *rest = all, *one;

	if (lend_address(ep, all, sizeof(all)) < 0)
		return false;
	while ((one = strsep(&rest, ",")))
		if (!strcmp(one, address))
			return true;
	return false;
}

/* Resolves an address and connects. hint: of lend_connect_key(), 0: none. 0 and *core,
 * -EINPROGRESS, or -errno. */
static int connect_core(struct lend_ep *ep, const char *address, const char *name, uint64_t tag,
			uint8_t hint, uint64_t *core)
{
	struct lend_core_identity self;
	uint32_t c = 0, index = 0;
	int rc = find_server(ep, address, name, &self, &c);

	if (rc == 0)
		rc = ep->carrier[c].io->ops->resolve(ep->carrier[c].io, address, &index);
	if (rc < 0)
		return rc;
	lend_sealed_propose(ep, c, address, &self);
	if (hint && lend_keys_hinted(hint))
		self.key_id = lend_keys_hinted(hint);
	self.loops = self.level && is_own_address(ep, address);
	rc = lend_core_connect(ep->core, lend_ep_now(ep), LEND_PEER(c, index), tag, &self, core);
	if (rc == -ENOSPC)
		return no_session(ep, address);
	if (rc < 0)
		return lend_fail(-rc, "%s: its datagrams are too short for a session", address);
	lend_core_set_server(ep->core, *core,
			     lend_handshake_server(ep, name ? address : NULL, &self));
	return 0;
}

static int wait_for(struct lend_ep *ep, struct lend_session_rec *s, const char *address,
		    const char *name)
{
	s->address = strdup(address);
	s->name = name ? strdup(name) : NULL;
	if (!s->address || (name && !s->name))
		return lend_fail(ENOMEM, "%s: no memory to remember the address", address);
	s->give_up = lend_ep_now(ep) + ep->config.dead;
	s->next = ep->pending;
	ep->pending = (uint32_t)(s - ep->session);
	ep->n_pending++;
	return 0;
}

static int open_session(struct lend_ep *ep, const char *address, const char *name, uint8_t hint,
			lend_session *session)
{
	struct lend_session_rec *s;
	uint64_t core = 0;
	int rc;

	if (!address || !session)
		return lend_fail(EINVAL,
				 "connect: no address; give one like shm:NAME or udp:HOST:PORT");
	if (ep->closing || !*ep->alive)
		return lend_fail(ESHUTDOWN, "%s: this endpoint is closed; open another", address);
	if (strncmp(address, LEND_HTTP2, strlen(LEND_HTTP2)) == 0)
		return ep->gateways.connect
			   ? ep->gateways.connect(ep, address, session)
			   : lend_fail(ENODEV,
				       "%s: not from a worker's endpoint: serve the method without "
				       "LEND_SLOW, call from there, and reply when the call ends",
				       address);
	if (lend_core_sessions_free(ep->core) <= ep->n_pending)
		return no_session(ep, address);
	s = take_entry(ep, LEND_SESSION_PENDING);
	if (!s)
		return no_session(ep, address);
	rc = connect_core(ep, address, name, handle_of(ep, s).id, hint, &core);
	s->key_hint = hint;
	s->server = lend_keys_server(address);
	if (rc == 0)
		bind_session(ep, s, core);
	else if (rc == -EINPROGRESS)
		rc = wait_for(ep, s, address, name);
	if (rc < 0) {
		give_entry(ep, s);
		return rc;
	}
	ep->dirty = true;
	*session = handle_of(ep, s);
	return 0;
}

int lend_connect_as(struct lend_ep *ep, const char *address, const char *name,
		    lend_session *session)
{
	return open_session(ep, address, name, 0, session);
}

int lend_connect_key(struct lend_ep *ep, const char *address, uint8_t first, lend_session *session)
{
	return open_session(ep, address, NULL, first, session);
}

int lend_connect(struct lend_ep *ep, const char *address, lend_session *session)
{
	return open_session(ep, address, NULL, 0, session);
}

/* Resolves one address again. True: no longer pending. */
static bool retry_address(struct lend_ep *ep, struct lend_session_rec *s)
{
	uint64_t core = 0;
	int rc =
	    ep->now < s->give_up
		? connect_core(ep, s->address, s->name, handle_of(ep, s).id, s->key_hint, &core)
		: lend_fail(ETIMEDOUT, "%s: no answer; is its process running and polling?",
			    s->address);

	if (rc == -EINPROGRESS)
		return false;
	ep->n_pending--;
	if (rc == 0) {
		bind_session(ep, s, core);
		lend_calls_admit(ep, s);
		return true;
	}
	lend_calls_abandon(ep, s, LEND_UNAVAILABLE);
	end_session(ep, s);
	return true;
}

void lend_sessions_retry(struct lend_ep *ep)
{
	uint32_t i = ep->pending;

	ep->pending = LEND_NONE32;
	while (i != LEND_NONE32) {
		struct lend_session_rec *s = &ep->session[i];
		uint32_t next = s->next;

		if (s->state == LEND_SESSION_CLOSING) {
			end_session(ep, s);
		} else if (!retry_address(ep, s)) {
			lend_calls_expire(ep, s);
			s->next = ep->pending;
			ep->pending = i;
		}
		i = next;
	}
}

void lend_disconnect(struct lend_ep *ep, lend_session session)
{
	struct lend_session_rec *s = lend_sessions_find(ep, session);

	if (!s)
		return;
	ep->dirty = true;
	if (s->state == LEND_SESSION_PENDING) {
		ep->n_pending--;
		lend_calls_abandon(ep, s, LEND_CANCELLED);
	} else {
		lend_calls_leave(ep, s, LEND_CANCELLED);
		lend_core_disconnect(ep->core, s->core);
	}
	s->state = LEND_SESSION_CLOSING;
}

void lend_session_set(struct lend_ep *ep, lend_session session, void *pointer)
{
	struct lend_session_rec *s = lend_sessions_find(ep, session);

	if (s)
		s->pointer = pointer;
}

void *lend_session_get(struct lend_ep *ep, lend_session session)
{
	struct lend_session_rec *s = lend_sessions_find_any(ep, session);

	return s ? s->pointer : NULL;
}

int lend_session_peer(struct lend_ep *ep, lend_session session, struct lend_peer *peer)
{
	struct lend_session_rec *s = lend_sessions_find(ep, session);
	struct lend_io_peer_info info = {.uid = -1};
	uint32_t at;

	if (!s)
		return lend_fail(ESTALE, "the session has ended; connect again");
	*peer = (struct lend_peer){.uid = -1};
	if (s->route && s->route->session.id == session.id) {
		memcpy(peer->address, s->route->address, sizeof(peer->address));
		return 0;
	}
	if (s->state == LEND_SESSION_PENDING && strlen(s->address) < sizeof(peer->address))
		strcpy(peer->address, s->address);
	if (s->state == LEND_SESSION_PENDING ||
	    lend_core_session_peer(ep->core, s->core, &at, peer->incarnation) < 0)
		return 0;
	if (LEND_PEER_CARRIER(at) < ep->n_carriers) {
		struct lend_io *io = ep->carrier[LEND_PEER_CARRIER(at)].io;

		io->ops->peer_info(io, LEND_PEER_INDEX(at), &info);
	}
	peer->uid = info.uid;
	memcpy(peer->address, info.address, sizeof(peer->address));
	return 0;
}

bool lend_session_gateway(struct lend_ep *ep, lend_session session)
{
	struct lend_session_rec *s = ep->gateways.n ? lend_sessions_find(ep, session) : NULL;
	uint8_t name[16];

	if (!s)
		return false;
	lend_handshake_name(ep->process_key, LEND_HTTP2, name);
	return memcmp(s->incarnation, name, sizeof(name)) == 0;
}

uint64_t lend_session_message_max(struct lend_ep *ep, lend_session session)
{
	struct lend_session_rec *s = lend_sessions_find(ep, session);

	if (!s)
		return 0;
	return s->state == LEND_SESSION_PENDING ? LEND_MESSAGE_MAX
						: lend_core_session_message_max(ep->core, s->core);
}

uint32_t lend_session_calls(struct lend_ep *ep, lend_session session)
{
	struct lend_session_rec *s = lend_sessions_find(ep, session);

	return s && s->state == LEND_SESSION_OPEN ? lend_core_session_calls(ep->core, s->core)
						  : ep->config.calls;
}

int lend_watch_sessions(struct lend_ep *ep, lend_watch_fn *watch, void *arg)
{
	ep->watch = watch;
	ep->watch_arg = arg;
	return 0;
}

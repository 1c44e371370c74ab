#include "seal/key_exchange.h"

#include "util/bits.h"
#include "util/check.h"
#include "util/siphash.h"

#define TICKET_KEY_NS (60 * UINT64_C(1000000000)) /* life of a ticket key, tickets included */

enum {
	INDEX_MASK = 0xffffff,
	BOUND = sizeof(struct lend_pkt) + offsetof(struct lend_pkt_connect, e),
	E_AT = BOUND,
	COOKIE_AT = sizeof(struct lend_pkt) + offsetof(struct lend_pkt_connect, cookie),
	TICKET_AT = sizeof(struct lend_pkt) + offsetof(struct lend_pkt_connect, ticket),
	CONNECT_TEXT = sizeof(struct lend_pkt) + offsetof(struct lend_pkt_connect, params),
	CONNECT_MIN = sizeof(struct lend_pkt) + sizeof(struct lend_pkt_connect) +
		      sizeof(struct lend_pkt_connect_end),
	ACCEPT_TEXT = sizeof(struct lend_pkt) + offsetof(struct lend_pkt_accept, params),
	ACCEPT_LEN = sizeof(struct lend_pkt) + sizeof(struct lend_pkt_accept),
	PROLOGUE = BOUND + sizeof(struct lend_pkt_ticket),
};
_Static_assert(BOUND == sizeof(struct lend_pkt) + offsetof(struct lend_pkt_accept, e), "the same");

enum kex_state { KEX_FREE, KEX_SENT, KEX_OPENED, KEX_ACCEPTED };

/* A first message and what its answer is opened with. */
struct form {
	struct lend_noise noise;
	uint8_t secret[LEND_KEY]; /* client: of e */
	uint8_t pattern;          /* enum lend_pkt_pattern */
	uint8_t suite, level;
};

struct record {
	uint64_t session; /* our id; 0: free */
	uint64_t connect, peer_id, key_id, address;
	struct form form;   /* client: of the newest CONNECT */
	struct form before; /* client: of the one before, which may be answered as well */
	uint8_t psk[LEND_KEY];
	uint8_t theirs[LEND_KEY]; /* server: the client's e */
	uint8_t state;            /* enum kex_state */
	uint16_t len;             /* bytes used in bytes[]; 0: none */
	uint8_t bytes[CONNECT_MIN];
};

struct ticket_key {
	lend_ns since; /* 0: none */
	uint8_t key[LEND_KEY];
};

struct lend_kex {
	const struct lend_seal_ops *ops;
	struct lend_kex_stats stats;
	lend_ns ticket_ns;
	struct ticket_key ticket_key[2]; /* the newest first */
	uint32_t sessions, n_opened;
	uint32_t touched; /* records from this one on were never used */
	struct record
	    opened[LEND_KEX_BURST]; /* CONNECTs of this burst that no session has claimed */
	struct record record[];     /* by index of the session */
};

size_t lend_kex_size(uint32_t sessions)
{
	return sizeof(struct lend_kex) + sessions * sizeof(struct record);
}

struct lend_kex *lend_kex_init(void *mem, const struct lend_seal_ops *ops, uint32_t sessions,
			       lend_ns ticket_ns)
{
	struct lend_kex *x = mem;

	LEND_CHECK(ticket_ns <= TICKET_KEY_NS / 2);
	x->ops = ops;
	x->sessions = sessions;
	x->ticket_ns = ticket_ns;
	return x;
}

const struct lend_kex_stats *lend_kex_stats(const struct lend_kex *x)
{
	return &x->stats;
}

void lend_kex_mac_key(const struct lend_seal_ops *ops, const uint8_t key[LEND_KEY],
		      uint8_t mac_key[LEND_KEX_MAC_KEY])
{
	const struct lend_hkdf_info info = {.label = "lend mac1"};

	lend_hkdf_expand(ops, key, &info, mac_key, LEND_KEX_MAC_KEY);
}

static void wipe_record(struct lend_kex *x, struct record *r)
{
	x->ops->wipe(r, sizeof(*r));
}

static struct record *record_of(struct lend_kex *x, uint64_t session)
{
	uint64_t i = session & INDEX_MASK;

	return i < x->sessions && x->record[i].session == session && session ? &x->record[i] : NULL;
}

static struct record *touch_record(struct lend_kex *x, uint64_t i)
{
	LEND_CHECK(i < x->sessions);
	x->touched = lend_max_u32(x->touched, (uint32_t)i + 1);
	return &x->record[i];
}

static enum lend_noise_pattern noise_pattern(uint8_t pattern)
{
	return pattern == LEND_PATTERN_NN   ? LEND_NOISE_NN
	       : pattern == LEND_PATTERN_NK ? LEND_NOISE_NK
					    : LEND_NOISE_RESUME;
}

/* Begins a handshake with what CONNECT has in clear. The cookie is not bound: a client learns it
 * after its first CONNECT. */
static void bind_connect(struct lend_kex *x, struct lend_noise *n, uint8_t pattern,
			 const struct lend_kex_keys *keys, const uint8_t *data)
{
	uint8_t prologue[PROLOGUE];

	memcpy(prologue, data, BOUND);
	memcpy(prologue + BOUND, data + TICKET_AT, sizeof(struct lend_pkt_ticket));
	lend_noise_begin(n, x->ops, noise_pattern(pattern), keys->server);
	lend_noise_hash(n, prologue, sizeof(prologue));
}

/* Draws a key pair; a resumption has random bytes instead. */
static void draw_e(struct lend_kex *x, uint8_t pattern, uint8_t secret[LEND_KEY],
		   uint8_t e[LEND_KEY])
{
	x->ops->random(secret, LEND_KEY);
	if (pattern == LEND_PATTERN_RESUME) {
		memcpy(e, secret, LEND_KEY);
		return;
	}
	x->stats.dh++;
	(void)x->ops->dh(secret, NULL, e);
}

/* The key that a pattern mixes in as its psk. */
static const uint8_t *psk_of(const struct lend_kex_keys *keys, uint8_t pattern)
{
	return pattern == LEND_PATTERN_RESUME ? keys->ticket : keys->psk;
}

static void put_mac(const uint8_t mac_key[LEND_KEX_MAC_KEY], uint8_t *data, uint32_t len)
{
	lend_siphash128(mac_key, data, len - LEND_TAG, data + len - LEND_TAG);
}

/* Seals the first message of an attempt, or of another form of it. */
static void seal_connect(struct lend_kex *x, struct record *r, const struct lend_kex_keys *keys,
			 uint8_t *data, uint32_t len)
{
	uint8_t pattern = r->form.pattern;
	const struct lend_noise_keys with = {psk_of(keys, pattern), r->form.secret, keys->server};

	draw_e(x, pattern, r->form.secret, data + E_AT);
	bind_connect(x, &r->form.noise, pattern, keys, data);
	x->stats.dh += pattern == LEND_PATTERN_NK;
	/* The server's public key was checked when it was read. */
	LEND_CHECK(lend_noise_first(&r->form.noise, data + E_AT, &with) == 0);
	lend_noise_seal(&r->form.noise, data + CONNECT_TEXT, len - CONNECT_TEXT - 2 * LEND_TAG);
	r->len = len == CONNECT_MIN ? CONNECT_MIN : 0;
	memcpy(r->bytes, data, r->len);
}

/* Returns whether a CONNECT is the one that was sealed last. A 0-RTT call is sent only once. */
static bool is_repeat(const struct record *r, const struct lend_pkt_connect *b, uint32_t len)
{
	return r->session == b->session && r->len == len && r->form.pattern == b->pattern &&
	       r->form.suite == b->suite;
}

static void begin_form(struct lend_kex *x, struct record *r, const struct lend_pkt_connect *b,
		       const struct lend_kex_keys *keys)
{
	if (r->session == b->session)
		r->before = r->form;
	else
		wipe_record(x, r);
	r->session = b->session;
	r->connect = b->connect;
	r->key_id = keys->id;
	r->state = KEX_SENT;
	memcpy(r->psk, keys->psk, LEND_KEY);
	r->form = (struct form){.pattern = b->pattern, .suite = b->suite, .level = b->level};
}

void lend_kex_connect(struct lend_kex *x, uint32_t sess, const struct lend_kex_keys *keys,
		      uint8_t *data, uint32_t len)
{
	struct lend_pkt_connect b;
	struct record *r;

	LEND_CHECK(len >= CONNECT_MIN);
	r = touch_record(x, sess);
	memcpy(&b, data + sizeof(struct lend_pkt), sizeof(b));
	if (is_repeat(r, &b, len)) {
		memcpy(data, r->bytes, len);
		memcpy(data + COOKIE_AT, &b.cookie, sizeof(b.cookie));
	} else {
		begin_form(x, r, &b, keys);
		seal_connect(x, r, keys, data, len);
	}
	put_mac(keys->mac_key, data, len);
}

static void put_result(struct lend_kex *x, const struct record *r, const struct form *f,
		       struct lend_noise *n, struct lend_kex_result *to)
{
	to->session = r->session;
	to->key_id = r->key_id;
	to->suite = f->suite;
	to->level = f->level;
	to->pattern = f->pattern;
	memcpy(to->binding, n->hash, LEND_DIGEST);
	lend_noise_split(n, to->to_server, to->to_client);
	if (f->pattern == LEND_PATTERN_RESUME)
		x->stats.resumed++;
	else
		x->stats.full++;
}

/* Opens an ACCEPT as the answer to one form of CONNECT. */
static bool open_accept(struct lend_kex *x, const struct record *r, const struct form *f,
			uint8_t *data, struct lend_kex_result *to)
{
	const struct lend_noise_keys with = {r->psk, f->secret, data + E_AT};
	uint8_t text[ACCEPT_LEN - ACCEPT_TEXT];
	struct lend_noise n = f->noise;
	bool good;

	memcpy(text, data + ACCEPT_TEXT, sizeof(text));
	x->stats.dh += f->pattern != LEND_PATTERN_RESUME;
	lend_noise_hash(&n, data, BOUND);
	good = lend_noise_second(&n, data + E_AT, &with) == 0 &&
	       lend_noise_open(&n, text, sizeof(text) - LEND_TAG) == 0;
	if (good) {
		memcpy(data + ACCEPT_TEXT, text, sizeof(text));
		put_result(x, r, f, &n, to);
	}
	x->ops->wipe(&n, sizeof(n));
	x->ops->wipe(text, sizeof(text));
	return good;
}

static bool is_answer(const struct form *f, const struct lend_pkt_accept *b)
{
	return f->pattern >= LEND_PATTERN_NN && f->pattern == b->pattern && f->suite == b->suite &&
	       f->level == b->level;
}

bool lend_kex_accepted(struct lend_kex *x, uint8_t *data, uint32_t len, struct lend_kex_result *to)
{
	struct lend_pkt_accept b;
	struct record *r;

	if (len != ACCEPT_LEN)
		return false;
	memcpy(&b, data + sizeof(struct lend_pkt), sizeof(b));
	r = record_of(x, lend_pkt_session(data));
	if (!r || r->state != KEX_SENT || r->connect != b.connect)
		return false;
	to->client = true;
	to->peer_id = b.session;
	if ((is_answer(&r->form, &b) && open_accept(x, r, &r->form, data, to)) ||
	    (is_answer(&r->before, &b) && open_accept(x, r, &r->before, data, to))) {
		wipe_record(x, r);
		return true;
	}
	x->stats.bad_accept++;
	return false;
}

void lend_kex_burst(struct lend_kex *x)
{
	if (x->n_opened)
		x->ops->wipe(x->opened, x->n_opened * sizeof(x->opened[0]));
	x->n_opened = 0;
}

bool lend_kex_mac_valid(struct lend_kex *x, const struct lend_kex_keys *keys, const uint8_t *data,
			uint32_t len)
{
	uint8_t mac[LEND_TAG];

	if (len < CONNECT_MIN)
		return false;
	lend_siphash128(keys->mac_key, data, len - LEND_TAG, mac);
	if (lend_equal_ct(mac, data + len - LEND_TAG, LEND_TAG))
		return true;
	x->stats.bad_mac++;
	return false;
}

/* Runs the first message at the server; in NK that costs one DH. */
static bool open_connect(struct lend_kex *x, struct record *r, const struct lend_kex_keys *keys,
			 uint8_t *data, uint32_t len)
{
	uint8_t pattern = r->form.pattern;
	const struct lend_noise_keys with = {psk_of(keys, pattern), keys->secret, r->theirs};

	bind_connect(x, &r->form.noise, pattern, keys, data);
	x->stats.dh += pattern == LEND_PATTERN_NK;
	return lend_noise_first(&r->form.noise, r->theirs, &with) == 0 &&
	       lend_noise_open(&r->form.noise, data + CONNECT_TEXT,
			       len - CONNECT_TEXT - 2 * LEND_TAG) == 0;
}

bool lend_kex_open(struct lend_kex *x, const struct lend_kex_keys *keys, uint8_t *data,
		   uint32_t len, uint64_t address)
{
	struct record *r = &x->opened[x->n_opened];
	struct lend_pkt_connect b;

	if (len < CONNECT_MIN || x->n_opened == LEND_KEX_BURST)
		return false;
	memcpy(&b, data + sizeof(struct lend_pkt), sizeof(b));
	*r = (struct record){.connect = b.connect,
			     .peer_id = b.session,
			     .key_id = keys->id,
			     .address = address,
			     .state = KEX_OPENED};
	r->form = (struct form){.pattern = b.pattern, .suite = b.suite, .level = b.level};
	memcpy(r->psk, keys->psk, LEND_KEY);
	memcpy(r->theirs, b.e, LEND_KEY);
	if (open_connect(x, r, keys, data, len)) {
		x->n_opened++;
		return true;
	}
	wipe_record(x, r);
	x->stats.bad_connect++;
	return false;
}

void lend_kex_claim(struct lend_kex *x, uint64_t session, const struct lend_pkt_connect *connect)
{
	struct record *r = touch_record(x, session & INDEX_MASK);

	for (uint32_t i = 0; i < x->n_opened; i++)
		if (x->opened[i].connect == connect->connect &&
		    x->opened[i].peer_id == connect->session) {
			*r = x->opened[i];
			r->session = session;
			return;
		}
}

/* Returns the ticket key of a time; NULL: none is that old. */
static const struct ticket_key *ticket_key_at(const struct lend_kex *x, lend_ns now, lend_ns made)
{
	const struct ticket_key *k = &x->ticket_key[made < x->ticket_key[0].since];

	return k->since && made >= k->since && now - k->since < TICKET_KEY_NS ? k : NULL;
}

/* Replaces the ticket key in time: the last ticket of a key ends with the key. */
static void renew_ticket_key(struct lend_kex *x, lend_ns now)
{
	if (x->ticket_key[0].since && now - x->ticket_key[0].since < TICKET_KEY_NS - x->ticket_ns)
		return;
	x->ticket_key[1] = x->ticket_key[0];
	x->ticket_key[0].since = now + !now;
	x->ops->random(x->ticket_key[0].key, LEND_KEY);
}

bool lend_kex_ticket_secret(struct lend_kex *x, lend_ns now, const struct lend_pkt_ticket *ticket,
			    uint64_t address, uint8_t secret[LEND_KEY])
{
	const uint64_t text[] = {ticket->until, ticket->key_id, ticket->random, address};
	const struct ticket_key *k;

	if (ticket->until <= now || ticket->until - now > x->ticket_ns ||
	    ticket->until < x->ticket_ns)
		return false;
	k = ticket_key_at(x, now, ticket->until - x->ticket_ns);
	if (k)
		x->ops->hmac_sha256(k->key, text, sizeof(text), secret);
	return k != NULL;
}

static void put_ticket_secret(struct lend_kex *x, const struct record *r, lend_ns now,
			      uint8_t *data)
{
	struct lend_pkt_accept b;

	memcpy(&b, data + sizeof(struct lend_pkt), sizeof(b));
	renew_ticket_key(x, now);
	if (b.ticket.until &&
	    lend_kex_ticket_secret(x, now, &b.ticket, r->address, b.ticket_secret))
		memcpy(data + sizeof(struct lend_pkt), &b, sizeof(b));
	x->ops->wipe(&b, sizeof(b));
}

/* Seals the second message. Returns false: the client's key is invalid. */
static bool seal_accept(struct lend_kex *x, struct record *r, uint8_t *data,
			struct lend_kex_result *to)
{
	struct form *f = &r->form;
	const struct lend_noise_keys with = {r->psk, f->secret, r->theirs};

	draw_e(x, f->pattern, f->secret, data + E_AT);
	x->stats.dh += f->pattern != LEND_PATTERN_RESUME;
	lend_noise_hash(&f->noise, data, BOUND);
	if (lend_noise_second(&f->noise, data + E_AT, &with))
		return false;
	lend_noise_seal(&f->noise, data + ACCEPT_TEXT, ACCEPT_LEN - ACCEPT_TEXT - LEND_TAG);
	put_result(x, r, f, &f->noise, to);
	to->client = false;
	to->peer_id = r->peer_id;
	return true;
}

int lend_kex_accept(struct lend_kex *x, uint32_t sess, lend_ns now, uint8_t *data, uint32_t len,
		    struct lend_kex_result *to)
{
	struct record *r = &x->record[sess];
	uint64_t connect;

	LEND_CHECK(sess < x->sessions && len == ACCEPT_LEN);
	memcpy(&connect, data + sizeof(struct lend_pkt), sizeof(connect));
	if (r->connect != connect || r->peer_id != lend_pkt_session(data))
		return -1;
	if (r->state == KEX_ACCEPTED) {
		memcpy(data, r->bytes, len);
		return 0;
	}
	put_ticket_secret(x, r, now, data);
	if (r->state != KEX_OPENED || !seal_accept(x, r, data, to))
		return -1;
	memcpy(r->bytes, data, len);
	r->len = ACCEPT_LEN;
	r->state = KEX_ACCEPTED;
	x->ops->wipe(&r->form, sizeof(r->form));
	x->ops->wipe(r->psk, sizeof(r->psk));
	return 1;
}

void lend_kex_forget(struct lend_kex *x, uint64_t session)
{
	struct record *r = record_of(x, session);

	if (r)
		wipe_record(x, r);
}

void lend_kex_close(struct lend_kex *x)
{
	lend_kex_burst(x);
	x->ops->wipe(x->ticket_key, sizeof(x->ticket_key));
	for (uint32_t i = 0; i < x->touched; i++)
		if (x->record[i].session)
			wipe_record(x, &x->record[i]);
}

/* session_open - time to open a session over UDP on loopback, both ends in one thread: in clear,
 * resumed by a ticket, by NN and by NK, in turn, so that all meet the same load; each right behind
 * another session. The clock stops when the client learns that the session is up.
 *
 *   perf_session_open [-n ROUNDS]       medians in us, the DH operations of a session, and the time
 *                                       of both ends' cryptography alone */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rpc/endpoint.h"
#include "rpc/keys.h"
#include "seal/noise.h"
#include "seal/suite.h"
#include "sys/clock.h"

enum { ROUNDS = 300, ROUNDS_MAX = 100000, TURNS_MAX = 1000000 };
enum { CONNECT_TEXT = 40, BOUND = 80, ACCEPT_TEXT = 112 }; /* bytes of a handshake */
enum kind { RESUMED, NN, NK, OPEN, KINDS };
static const char *const names[] = {"resumed", "NNpsk0", "NKpsk2", "in clear"};

/* Ends of one kind; sealed kinds share theirs. */
struct ends {
	struct lend_ep *server, *client;
	char address[64];
	bool up;
	lend_ns up_at;
};

static struct samples {
	double us[ROUNDS_MAX], alone[ROUNDS_MAX];
	uint64_t dh;
} samples[KINDS];

static _Noreturn void end_with(const char *what)
{
	fprintf(stderr, "perf_session_open: %s: %s\n", what, lend_why());
	exit(1);
}

static void note_up(lend_session session, const uint8_t incarnation[16], bool up, void *arg)
{
	struct ends *e = arg;

	(void)session;
	(void)incarnation;
	e->up = up;
	e->up_at = lend_clock_now();
}

static void open_ends(struct ends *e, const char *level)
{
	struct lend_config config = LEND_CONFIG_INIT;
	static unsigned port = 21000;

	if (setenv("LEND_LEVEL", level, 1) < 0 || lend_open(&config, &e->client) < 0)
		end_with("client");
	for (int tries = 0; tries < 100 && !e->server; tries++) {
		snprintf(e->address, sizeof(e->address), "udp:127.0.0.1:%u",
			 port + (unsigned)getpid() % 20000 + (unsigned)tries);
		config.listen = e->address;
		if (lend_open(&config, &e->server) < 0 && errno != EADDRINUSE)
			continue;
	}
	port += 200;
	if (!e->server)
		end_with("server");
	lend_watch_sessions(e->client, note_up, e);
}

static void turn_until(struct ends *e, bool up)
{
	for (int i = 0; e->up != up; i++) {
		lend_ep_turn(e->client);
		lend_ep_turn(e->server);
		if (i == TURNS_MAX)
			end_with("a session did not open, or did not end");
	}
}

/* Opens a session, and closes it again. Returns its time in us. */
static double open_session(struct ends *e, enum kind kind, uint64_t round)
{
	lend_ns begin = lend_clock_now(), end;
	struct lend_session_rec *s;
	lend_session session;

	if (lend_connect(e->client, e->address, &session) < 0)
		end_with("connect");
	s = lend_sessions_find(e->client, session);
	if (kind == NN || kind == NK) /* a server without a ticket */
		lend_core_set_server(e->client->core, s->core, round + 1);
	turn_until(e, true);
	end = e->up_at;
	lend_disconnect(e->client, session);
	turn_until(e, false);
	for (int i = 0; i < 50; i++) {
		lend_ep_turn(e->server);
		lend_ep_turn(e->client);
	}
	return (double)(end - begin) / 1e3;
}

/* One end of a handshake without datagrams. */
struct alone {
	struct lend_noise noise;
	uint8_t secret[LEND_KEY], e[LEND_KEY], to[2][LEND_KEY];
	_Alignas(64) uint8_t expanded[LEND_EXPANDED_MAX];
};

static void draw_pair(const struct lend_seal_ops *ops, struct alone *a, enum kind kind)
{
	ops->random(a->secret, LEND_KEY);
	if (kind == RESUMED)
		memcpy(a->e, a->secret, LEND_KEY);
	else
		(void)ops->dh(a->secret, NULL, a->e);
}

static void derive_keys(const struct lend_seal_ops *ops, struct alone *a)
{
	const struct lend_suite_ops *suite = ops->suite[lend_suite_best(ops)];
	uint8_t key[LEND_KEY], iv[LEND_KEY];

	lend_noise_split(&a->noise, a->to[0], a->to[1]);
	for (int i = 0; i < 2; i++) {
		lend_hkdf_expand(ops, a->to[i], &(struct lend_hkdf_info){"lend key", "", 0}, key,
				 LEND_KEY);
		lend_hkdf_expand(ops, a->to[i], &(struct lend_hkdf_info){"lend iv", "", 0}, iv, 12);
		suite->expand(key, a->expanded);
	}
}

static const uint8_t none[152];

/* CONNECT, at one end. Returns 0, or not: it does not open. */
static int pass_first(const struct lend_seal_ops *ops, struct alone *a, enum kind kind,
		      const struct alone *client, uint8_t *text)
{
	struct lend_kex_keys own = {0};
	struct lend_noise_keys keys = {none, a->secret, own.server};

	(void)lend_keys_own(&own);
	lend_noise_begin(&a->noise, ops,
			 kind == NK   ? LEND_NOISE_NK
			 : kind == NN ? LEND_NOISE_NN
				      : LEND_NOISE_RESUME,
			 own.server);
	lend_noise_hash(&a->noise, none, sizeof(none));
	if (a == client)
		draw_pair(ops, a, kind);
	else
		keys = (struct lend_noise_keys){none, own.secret, client->e};
	if (lend_noise_first(&a->noise, client->e, &keys))
		return -1;
	if (a != client)
		return lend_noise_open(&a->noise, text, CONNECT_TEXT);
	lend_noise_seal(&a->noise, text, CONNECT_TEXT);
	return 0;
}

/* ACCEPT, and the keys of the session. */
static int pass_second(const struct lend_seal_ops *ops, struct alone *a, enum kind kind,
		       struct alone *server, const struct alone *client, uint8_t *text)
{
	int rc = 0;

	if (a == server)
		draw_pair(ops, a, kind);
	lend_noise_hash(&a->noise, none, BOUND);
	if (lend_noise_second(
		&a->noise, server->e,
		&(struct lend_noise_keys){none, a->secret, a == server ? client->e : server->e}))
		return -1;
	if (a == server)
		lend_noise_seal(&a->noise, text, ACCEPT_TEXT);
	else
		rc = lend_noise_open(&a->noise, text, ACCEPT_TEXT);
	derive_keys(ops, a);
	return rc;
}

/* Returns the time of the cryptography of a handshake, both ends, without datagrams and tables. */
static double time_alone(enum kind kind)
{
	static struct alone c, s;
	const struct lend_seal_ops *ops;
	uint8_t text[2][sizeof(none)] = {{0}};
	lend_ns begin;

	(void)lend_keys_seal(&ops);
	begin = lend_clock_now();
	if (pass_first(ops, &c, kind, &c, text[0]) || pass_first(ops, &s, kind, &c, text[0]) ||
	    pass_second(ops, &s, kind, &s, &c, text[1]) ||
	    pass_second(ops, &c, kind, &s, &c, text[1]))
		end_with("a handshake without datagrams failed");
	return (double)(lend_clock_now() - begin) / 1e3;
}

static uint64_t dh_of(const struct ends *e)
{
	return e->client->shake.kex ? lend_kex_stats(e->client->shake.kex)->dh +
					  lend_kex_stats(e->server->shake.kex)->dh
				    : 0;
}

/* Chooses whether the client knows the server's public key. */
static void know_server(const char *path, const struct ends *e, bool known)
{
	struct lend_kex_keys keys;
	FILE *file = fopen(path, "r+");
	char text[1024] = {0};
	char *end;

	if (!file || fread(text, 1, sizeof(text) - 200, file) == 0 || !lend_keys_own(&keys))
		end_with(path);
	end = strstr(text, "server ");
	end = end ? end : strchr(text, 0);
	*end = 0;
	if (known) {
		end += sprintf(end, "server %s ", e->address);
		for (int i = 0; i < LEND_KEY; i++)
			end += sprintf(end, "%02x", keys.server[i]);
		strcpy(end, "\n");
	}
	rewind(file);
	if (ftruncate(fileno(file), 0) < 0 || fputs(text, file) < 0)
		end_with(path);
	fclose(file);
	if (lend_reload_keys() < 0)
		end_with("reload");
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void run_rounds(const char *path, struct ends *sealed, struct ends *open, uint32_t rounds)
{
	for (uint32_t i = 0; i < rounds; i++)
		for (int kind = 0; kind < KINDS; kind++) {
			struct ends *e = kind == OPEN ? open : sealed;
			uint64_t dh;

			know_server(path, sealed, kind == NK);
			(void)open_session(e, (enum kind)kind, 2 * (i * KINDS + kind));
			dh = dh_of(e);
			samples[kind].us[i] =
			    open_session(e, (enum kind)kind, 2 * (i * KINDS + kind) + 1);
			samples[kind].dh += dh_of(e) - dh;
			samples[kind].alone[i] = kind == OPEN ? 0 : time_alone((enum kind)kind);
		}
}

int main(int argc, char **argv)
{
	uint32_t rounds = argc == 3 && !strcmp(argv[1], "-n") ? (uint32_t)atoi(argv[2]) : ROUNDS;
	struct ends sealed = {0}, open = {0};
	char path[64], made[64];
	FILE *file;

	snprintf(path, sizeof(path), "/tmp/perf_session_open.%d", (int)getpid());
	setenv("LEND_KEYS", path, 1);
	if (rounds == 0 || rounds > ROUNDS_MAX || lend_keygen(path, made, sizeof(made)) < 0)
		end_with("usage: perf_session_open [-n ROUNDS]");
	file = fopen(path, "a");
	fprintf(file, "static %064x\n", 0x5ec2e7);
	fclose(file);
	open_ends(&sealed, "encrypt");
	open_ends(&open, "none");
	run_rounds(path, &sealed, &open, rounds);
	unlink(path);
	for (int kind = 0; kind < KINDS; kind++) {
		qsort(samples[kind].us, rounds, sizeof(double), compare_doubles);
		qsort(samples[kind].alone, rounds, sizeof(double), compare_doubles);
		printf("%-9s p50 %7.1f us, least %7.1f us, %.1f DH, cryptography alone %.1f us\n",
		       names[kind], samples[kind].us[rounds / 2], samples[kind].us[0],
		       (double)samples[kind].dh / rounds, samples[kind].alone[rounds / 2]);
	}
	lend_close(sealed.client);
	lend_close(sealed.server);
	lend_close(open.client);
	lend_close(open.server);
	return 0;
}

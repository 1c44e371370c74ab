/* doctor_sealing - lend doctor's checks of keys and encryption: where the keys are, what a datagram
 * costs, and how sessions of this machine are protected. Layer: apps. Threads: one. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/common/closed_loop.h"
#include "apps/tools/doctor.h"
#include "lend/stats.h"
#include "rpc/keys.h"
#include "seal/suite.h"
#include "wire/pkt.h"

enum { BURST = 32, ROUNDS = 40, HEAD = sizeof(struct lend_pkt), ROOM = 1600, TURNS = 20000 };

static const char *const suite_names[LEND_SUITES] = {"none", "AES-128-GCM (intel-ipsec-mb)",
						     "ChaCha20-Poly1305 (libsodium)", "test"};
static const char *const level_names[LEND_LEVELS] = {"in clear", "authenticated", "encrypted"};

/* Checks the keys, which each endpoint needs on any carrier: the first endpoint reads them. */
void doctor_keys(struct visit *v)
{
	struct finding *f = doctor_note(v, "keys", false,
					"name a file of keys that this user can read (LEND_KEYS), "
					"or a home without one (HOME)");
	struct lend_config config = LEND_CONFIG_INIT;
	char path[PATH_MAX];
	struct lend_ep *ep;

	config.level = "none"; /* reads the file, and does not make it */
	f->ok = lend_open(&config, &ep) == 0;
	v->no_endpoint = !f->ok;
	if (!f->ok) {
		snprintf(f->found, sizeof(f->found), "%s", lend_why());
		return;
	}
	(void)lend_keys_path(path, sizeof(path));
	if (!lend_key_id(ep))
		snprintf(f->found, sizeof(f->found),
			 "none; %.200s is made at the first sealed session, or by lend keygen",
			 path);
	else /* as the file writes it */
		snprintf(f->found, sizeof(f->found), "endpoints prove psk %016" PRIx64 " of %.200s",
			 __builtin_bswap64(lend_key_id(ep)),
			 lend_keys_filed(lend_key_id(ep)) ? path : "LEND_SECRET");
	lend_close(ep);
}

/* Returns the nanoseconds that a datagram of this many bytes takes to seal, in bursts: the least of
 * some rounds. */
static double seal_ns(const struct lend_suite_ops *suite, uint32_t len)
{
	static _Alignas(64) uint8_t bytes[BURST][ROOM];
	static _Alignas(64) uint8_t expanded[LEND_EXPANDED_MAX];
	static struct lend_seal_job job[BURST];
	static const uint8_t key[LEND_KEY] = {1};
	lend_ns least = UINT64_MAX;

	suite->expand(key, expanded);
	for (uint32_t i = 0; i < BURST; i++) {
		job[i] = (struct lend_seal_job){
		    .key = expanded, .at = bytes[i], .ad_len = HEAD, .len = len - HEAD};
		job[i].nonce[0] = (uint8_t)i;
	}
	for (int round = 0; round < ROUNDS; round++) {
		lend_ns began = app_now(), took;

		suite->seal(job, BURST);
		took = app_now() - began;
		least = took < least ? took : least;
	}
	return (double)least / BURST;
}

static void check_cost(struct visit *v)
{
	struct finding *f = doctor_note(v, "encryption", false,
					"install libsodium23, and keep lend_seal.so next to the "
					"library (LEND_MODULE_DIR)");
	const struct lend_seal_ops *ops;
	uint8_t suite;

	if (lend_keys_seal(&ops) < 0) {
		snprintf(f->found, sizeof(f->found), "%s", lend_why());
		return;
	}
	suite = lend_suite_best(ops);
	f->ok = suite == LEND_SUITE_AES128_GCM;
	f->fix = "install libipsec-mb-dev and build again: AES-128-GCM takes a fifth of the time";
	snprintf(f->found, sizeof(f->found),
		 "%s: a datagram of 64 bytes is sealed in %.0f ns, one of 1,472 in %.0f",
		 suite_names[suite], seal_ns(ops->suite[suite], 64),
		 seal_ns(ops->suite[suite], 1472));
}

/* Returns the level of a session of this process with itself; -1: there is none. */
static int find_level(const char *listen)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *server, *client;
	struct lend_session_stats stats = {.up = 0};
	char address[160];
	lend_session session;

	if (lend_open(&config, &client) < 0)
		return -1;
	config.listen = listen;
	if (lend_open(&config, &server) < 0) {
		lend_close(client);
		return -1;
	}
	if (lend_address(server, address, sizeof(address)) == 0 &&
	    lend_connect(client, address, &session) == 0)
		for (int i = 0; i < TURNS && !stats.up; i++) {
			if (lend_poll(client) < 0 || lend_poll(server) < 0)
				break;
			(void)lend_stats_session(client, 0, &stats);
		}
	lend_close(client);
	lend_close(server);
	return stats.up && stats.level < LEND_LEVELS ? stats.level : -1;
}

static void check_levels(struct visit *v)
{
	struct finding *f =
	    doctor_note(v, "levels", true, "unset LEND_LEVEL, or set it to encrypt");
	const char *set = getenv("LEND_LEVEL");
	char shm[64];
	int network = find_level("udp:127.0.0.1:0"), local;

	snprintf(shm, sizeof(shm), "shm:doctor-level-%d", (int)getpid());
	local = find_level(shm);
	f->ok = network == LEND_LEVEL_ENCRYPT;
	snprintf(f->found, sizeof(f->found), "udp, memif, verbs, raw: %s; shm, rings: %s (%s%s)",
		 network < 0 ? "no session" : level_names[network],
		 local < 0 ? "no session" : level_names[local], set ? "LEND_LEVEL=" : "the default",
		 set ? set : "");
}

void doctor_sealing(struct visit *v)
{
	check_cost(v);
	if (!v->no_endpoint)
		check_levels(v);
}

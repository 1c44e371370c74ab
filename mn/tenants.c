#include "mn/tenants.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/last_error.h"
#include "util/siphash.h"

enum { RULES_MAX = 64, SECRET_MAX = 256 };
enum kind { EACH, UID, NET, SECRET, TENANT };

struct rule {
	enum kind kind;
	uint32_t uid;
	char secret[SECRET_MAX]; /* TENANT: its name */
	struct lend_store_quota quota;
};
struct mn_tenants {
	uint32_t n;
	struct rule rule[RULES_MAX];
};

static int fail_rule(const char *rule)
{
	return lend_fail(EINVAL,
			 "--quota %s: give WHO:BYTES[:REFS[:CLIENTS]], as in each:1G or "
			 "uid=1000:4G:100000:16; WHO is each, net, uid=N, "
			 "secret=FILE or tenant=NAME",
			 rule);
}

/* Reads the file's first line. */
static int read_secret(const char *path, char secret[SECRET_MAX])
{
	FILE *file = fopen(path, "re");

	if (!file)
		return lend_fail(errno, "--quota secret=%s: %s", path, strerror(errno));
	if (!fgets(secret, SECRET_MAX, file))
		secret[0] = 0;
	fclose(file);
	secret[strcspn(secret, "\r\n")] = 0;
	if (!secret[0])
		return lend_fail(EINVAL, "--quota secret=%s: the first line is empty", path);
	return 0;
}

/* Parses "", "-" or a number with a unit; "" and "-" leave *n unchanged. False: something else. */
static bool read_number(const char *text, uint64_t *n)
{
	static const char unit[] = "KMGT";
	const char *u;
	char *end;

	if (!text || !*text || !strcmp(text, "-"))
		return true;
	errno = 0;
	*n = strtoull(text, &end, 10);
	if (errno || end == text || *text == '-' || *text == '+')
		return false;
	u = *end ? strchr(unit, *end >= 'a' ? *end - 32 : *end) : NULL;
	if (u) {
		unsigned shift = 10 * (unsigned)(u - unit + 1);

		*n = *n > UINT64_MAX >> shift ? UINT64_MAX : *n << shift;
		end++;
	}
	return *end == 0;
}

static int read_owner(char *owner, struct rule *rule)
{
	char *end;
	unsigned long uid;
	int rc;

	if (!strcmp(owner, "each") || !strcmp(owner, "net")) {
		rule->kind = *owner == 'e' ? EACH : NET;
		return 0;
	}
	if (!strncmp(owner, "secret=", 7)) {
		rule->kind = SECRET;
		rc = read_secret(owner + 7, rule->secret);
		return rc < 0 ? rc : lend_accept_secret(rule->secret);
	}
	if (!strncmp(owner, "tenant=", 7)) {
		rule->kind = TENANT;
		(void)snprintf(rule->secret, sizeof(rule->secret), "%s", owner + 7);
		return *rule->secret ? 0 : -EINVAL;
	}
	if (strncmp(owner, "uid=", 4) != 0 || owner[4] < '0' || owner[4] > '9')
		return -EINVAL;
	uid = strtoul(owner + 4, &end, 10);
	rule->kind = UID;
	rule->uid = (uint32_t)uid;
	return *end || uid >= UINT32_MAX ? -EINVAL : 0;
}

/* Parses a rule. The quota of pages and references is divided by the workers; the quota of clients
 * is not, because a client connects to every worker. */
static int read_rule(char *text, uint32_t page, uint32_t workers, struct rule *rule)
{
	uint64_t bytes = UINT64_MAX, refs = UINT32_MAX, clients = UINT32_MAX;
	char whole[512], *rest = text, *owner;
	int rc;

	(void)snprintf(whole, sizeof(whole), "%s", text);
	owner = strsep(&rest, ":");
	if (!rest || !read_number(strsep(&rest, ":"), &bytes) ||
	    !read_number(rest ? strsep(&rest, ":") : NULL, &refs) ||
	    !read_number(rest ? strsep(&rest, ":") : NULL, &clients) || rest)
		return fail_rule(whole);
	rc = read_owner(owner, rule);
	if (rc == -EINVAL && rule->kind != SECRET)
		return fail_rule(whole);
	if (bytes > 0 && bytes / page / workers == 0)
		return lend_fail(EINVAL,
				 "--quota %s: %" PRIu64 " bytes are less than a page of %u for "
				 "each worker; give more, or smaller pages with --page",
				 whole, bytes, page);
	rule->quota.pages = bytes == UINT64_MAX ? bytes : bytes / page / workers;
	rule->quota.refs = refs >= UINT32_MAX ? UINT32_MAX : (uint32_t)(refs / workers);
	rule->quota.clients = clients >= UINT32_MAX ? UINT32_MAX : (uint32_t)clients;
	return rc;
}

int mn_tenants_open(const char *text, uint32_t page, uint32_t workers, struct mn_tenants **out)
{
	struct mn_tenants *tenants = NULL;
	char *copy, *rest, *one;
	int rc = 0;

	*out = NULL;
	if (!text)
		return 0;
	tenants = calloc(1, sizeof(*tenants));
	copy = rest = strdup(text);
	if (!tenants || !copy)
		rc = lend_fail(ENOMEM, "no memory for quotas");
	while (rc == 0 && (one = strsep(&rest, ","))) {
		rc = tenants->n < RULES_MAX
			 ? read_rule(one, page, workers, &tenants->rule[tenants->n])
			 : lend_fail(EINVAL, "--quota: at most %d rules", RULES_MAX);
		tenants->n++;
	}
	free(copy);
	if (rc < 0)
		free(tenants);
	else
		*out = tenants;
	return rc;
}

void mn_tenants_close(struct mn_tenants *tenants)
{
	free(tenants);
}

static const struct rule *find_rule(const struct mn_tenants *tenants, enum kind kind, uint32_t uid)
{
	for (uint32_t i = 0; i < tenants->n; i++)
		if (tenants->rule[i].kind == kind && tenants->rule[i].uid == uid)
			return &tenants->rule[i];
	return NULL;
}

/* Returns the rule of the session's secret. Compares all secrets, whichever of them matches. */
static const struct rule *find_secret(const struct mn_tenants *tenants, struct lend_ep *ep,
				      lend_session session)
{
	const struct rule *found = NULL;

	for (uint32_t i = 0; i < tenants->n; i++)
		if (tenants->rule[i].kind == SECRET &&
		    lend_session_knows(ep, session, tenants->rule[i].secret))
			found = &tenants->rule[i];
	return found;
}

static const struct rule *find_tenant(const struct mn_tenants *tenants, const char *name)
{
	for (uint32_t i = 0; i < tenants->n; i++)
		if (tenants->rule[i].kind == TENANT && !strcmp(tenants->rule[i].secret, name))
			return &tenants->rule[i];
	return NULL;
}

static uint64_t hash_of(const char *text)
{
	static const uint8_t key[16] = "lend tenant";

	return lend_siphash64(key, text, strlen(text));
}

/* Returns the store's id of a tenant that the file of keys names. */
static uint64_t named_id(const char *name)
{
	return hash_of(name) | UINT64_C(3) << 62;
}

uint32_t mn_tenants_of(const struct mn_tenants *tenants, struct lend_ep *ep,
		       struct lend_store *store, lend_session session, uint64_t *sessions)
{
	static const struct lend_store_quota none = {UINT64_MAX, UINT32_MAX, UINT32_MAX};
	struct lend_peer peer = {.uid = -1};
	char name[SECRET_MAX];
	const struct rule *rule;
	uint64_t id;

	*sessions = UINT64_MAX;
	if (!tenants) /* then only keys have tenants, which bound references need */
		return lend_session_tenant(ep, session, name, sizeof(name))
			   ? lend_store_tenant(store, named_id(name), &none)
			   : 0;
	(void)lend_session_peer(ep, session, &peer);
	rule = find_secret(tenants, ep, session);
	if (rule) {
		id = hash_of(rule->secret) | UINT64_C(1) << 63;
	} else if (lend_session_tenant(ep, session, name, sizeof(name))) {
		rule = find_tenant(tenants, name);
		id = named_id(name);
	} else if (peer.uid >= 0) {
		rule = find_rule(tenants, UID, (uint32_t)peer.uid);
		id = UINT64_C(1) << 32 | (uint32_t)peer.uid;
	} else {
		rule = find_rule(tenants, NET, 0);
		id = UINT64_C(2) << 32;
	}
	rule = rule ? rule : find_rule(tenants, EACH, 0);
	if (rule && rule->quota.clients < UINT32_MAX)
		*sessions = (uint64_t)rule->quota.clients * MN_TENANT_SESSIONS;
	return lend_store_tenant(store, id, rule ? &rule->quota : &none);
}

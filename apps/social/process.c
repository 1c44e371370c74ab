/* process - one process of the social network: its roles, until a signal ends it.
 * Layer: apps. Threads: one. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/common/options.h"
#include "apps/social/role_address.h"
#include "apps/social/deploy.h"
#include "apps/social/http_gateway.h"
#include "apps/social/role_metrics.h"
#include "apps/social/social_store.h"
#include "apps/social/tier.h"
#include "lend/grpc.h"

enum { MESSAGE_MAX = 64 << 20, SESSION_DEAD_MS = 1000, PROBE_MS = 200, TIMEOUT_MS = 5000 };
#define MS UINT64_C(1000000)

static enum social_role role_of(const char *name)
{
	for (unsigned i = 0; i < SOCIAL_ROLES; i++)
		if (!strcmp(name, social_role_names[i]))
			return i;
	app_bad("--role %s: no such role; see lend social --help", name);
}

static void serve_role(const struct social_args *args, enum social_role role, const char *address)
{
	char url[SOCIAL_ADDRESS_MAX];
	int err;

	if (role < SOCIAL_GATEWAY)
		social_serve(role);
	if (role == SOCIAL_WEB || role == SOCIAL_BALANCER)
		tier_serve(role);
	if (role == SOCIAL_GATEWAY) {
		gateway_open(args->http, args->body_max, url, sizeof(url));
		address = url;
	}
	err = social_address_write(social.dir, social_role_names[role], address);
	if (err < 0)
		app_die("%s/addr: %s; give another --dir", social.dir, strerror(-err));
}

static void close_process(void *arg)
{
	(void)arg;
	http_close();
	store_close_all();
	lend_mem_close(social.mem);
	social.mem = NULL;
}

/* Opens the client of the memory node, if the deployment has one. */
static void open_node(const struct social_args *args)
{
	char address[SOCIAL_ADDRESS_MAX];
	const char *node = args->node;

	if (!node && social_address_read(args->dir, "node", address))
		node = address;
	if (node && lend_mem_open(social.ep, node, &social.mem) < 0)
		app_die("%s", lend_why());
}

/* Serves the counters, at an address that DIR/addr/metrics-ROLE has: of the first role. */
static void serve_metrics(const struct social_args *args)
{
	char url[SOCIAL_ADDRESS_MAX], name[300];
	int err;

	metrics_open(args->metrics, url, sizeof(url));
	(void)snprintf(name, sizeof(name), "metrics-%.*s", (int)strcspn(args->roles, ","),
		       args->roles);
	err = social_address_write(social.dir, name, url);
	if (err < 0)
		app_die("%s/addr: %s; give another --dir", social.dir, strerror(-err));
}

/* Writes the times of all roles for the launcher: DIR/times-ROLE, of the first role. */
static void write_times(void *arg)
{
	const struct social_args *args = arg;
	char path[SOCIAL_PATH_MAX], whole[SOCIAL_PATH_MAX];
	FILE *file;

	social_times_path(path, sizeof(path), args->dir, args->roles);
	(void)snprintf(whole, sizeof(whole), "%.500s.new", path);
	file = fopen(whole, "we");
	if (!file)
		return;
	for (unsigned role = 0; role < SOCIAL_ROLES; role++)
		fprintf(file, "%" PRIu64 " %" PRIu64 "\n", social.counters[role].store_ns,
			social.counters[role].call_ns);
	if (fclose(file) == 0)
		(void)rename(whole, path);
}

int social_process(const struct social_args *args)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct app_server_args at = args->server;
	struct app_server server;
	char roles[256], address[SOCIAL_ADDRESS_MAX], *rest = NULL, own[64];

	(void)snprintf(own, sizeof(own), "shm:social-%d", (int)getpid());
	at.listen = at.listen ? at.listen : own;
	config.message_max = MESSAGE_MAX;
	config.dead = SESSION_DEAD_MS * MS;
	config.probe = PROBE_MS * MS;
	config.timeout = TIMEOUT_MS * MS;
	app_server_open(&server, &at, &config);
	social.ep = server.ep;
	server.closing = close_process;
	server.counting = write_times;
	server.arg = (void *)(uintptr_t)args;
	(void)mkdir(social.dir, 0755);
	open_node(args);
	if (lend_address(social.ep, address, sizeof(address)) < 0)
		app_die("%s", lend_why());
	social.over_shm = !strncmp(address, "shm:", 4);
	(void)snprintf(roles, sizeof(roles), "%s", args->roles);
	for (char *role = strtok_r(roles, ",", &rest); role; role = strtok_r(NULL, ",", &rest))
		serve_role(args, role_of(role), address);
	if (args->metrics && !strstr(args->roles, social_role_names[SOCIAL_GATEWAY]))
		serve_metrics(args);
	signal(SIGPIPE, SIG_IGN);
	return app_server_run(&server);
}

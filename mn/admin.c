#include "mn/admin.h"

#include <errno.h>

#include "sys/why.h"

#ifdef LEND_JANSSON
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lend/stats.h"
#include "mn/store/list.h"
#include "mn/worker.h"

/* A connection that is silent for so long is closed, for others wait. */
enum { SILENT_MS = 1000, LINE_MAX_LEN = 4096, LIST_MAX = 1000 };

struct mn_admin {
	struct mn_worker *worker;
	uint32_t workers;
	int door, stop;
	pthread_t thread;
	char path[108];
};

/* One question of ours to a worker, and what it found. */
struct look {
	struct lend_memstats stats;
	uint32_t at, n, limit; /* of a list */
	struct lend_list_object *object;
	struct lend_list_client *client;
	uint64_t serial;
	uint8_t process[16];
	bool found;
	lend_ns now;
};

static json_t *error(const char *text)
{
	return json_pack("{ss}", "error", text);
}

static void hex(const uint8_t bytes[16], char text[33])
{
	for (int i = 0; i < 16; i++)
		(void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

static bool unhex(const char *text, uint8_t bytes[16])
{
	unsigned byte;

	for (int i = 0; i < 16; i++) {
		if (sscanf(text + 2 * i, "%2x", &byte) != 1)
			return false;
		bytes[i] = (uint8_t)byte;
	}
	return strlen(text) == 32;
}

static void read_stats(struct mn_worker *worker, void *arg)
{
	struct look *look = arg;
	struct lend_stats stats;

	lend_stats(worker->ep, &stats);
	lend_store_set_tx_bytes(worker->store, stats.tx_bytes);
	lend_store_stats(worker->store, &look->stats);
}

static json_t *stat_of(const struct lend_memstats *stats)
{
	json_t *out = json_object();

#define X(name, text) json_object_set_new(out, #name, json_integer((json_int_t)stats->name));
	LEND_MEM_STATS(X)
#undef X
	return out;
}

static json_t *do_stat(struct mn_admin *admin, const json_t *request)
{
	json_t *workers = json_array(), *out = json_pack("{so}", "workers", workers);
	struct look look;

	(void)request;
	for (uint32_t i = 0; i < admin->workers; i++)
		if (mn_ask(&admin->worker[i], read_stats, &look))
			json_array_append_new(workers, stat_of(&look.stats));
	return out;
}

static void read_list(struct mn_worker *worker, void *arg)
{
	struct look *look = arg;

	look->now = lend_now(worker->ep);
	look->n = lend_store_list(worker->store, &look->at, look->object, look->limit);
}

static json_t *object_of(uint32_t worker, const struct lend_list_object *o, lend_ns now)
{
	char process[33];
	json_t *out;

	hex(o->owner, process);
	if (o->is_space)
		return json_pack("{ss si si sI sI ss si}", "kind", "space", "worker", (int)worker,
				 "slot", (int)o->slot, "serial", (json_int_t)o->serial, "bytes",
				 (json_int_t)o->len, "process", process, "client", (int)o->number);
	out = json_pack("{ss si si sI sI si si}", "kind", "ref", "worker", (int)worker, "slot",
			(int)o->slot, "serial", (json_int_t)o->serial, "bytes", (json_int_t)o->len,
			"holds", (int)o->holds, "grants", (int)o->grants);
	if (o->expires != LEND_NEVER)
		json_object_set_new(
		    out, "expires_ms",
		    json_integer(
			(json_int_t)(o->expires > now ? (o->expires - now) / 1000000 : 0)));
	return out;
}

static uint64_t field(const json_t *request, const char *name, uint64_t without)
{
	const json_t *value = json_object_get(request, name);

	return json_is_integer(value) && json_integer_value(value) >= 0
		   ? (uint64_t)json_integer_value(value)
		   : without;
}

/* Objects from {worker, slot} on, and with "next" where to go on. */
static json_t *do_ls(struct mn_admin *admin, const json_t *request)
{
	uint64_t worker = field(request, "worker", 0), limit = field(request, "limit", 100);
	json_t *objects = json_array(), *out = json_pack("{so}", "objects", objects);
	struct look look = {.at = (uint32_t)field(request, "slot", 0)};
	size_t left = limit < LIST_MAX ? limit : LIST_MAX;

	look.object = calloc(LIST_MAX, sizeof(*look.object));
	while (look.object && left && worker < admin->workers) {
		look.limit = (uint32_t)left;
		if (!mn_ask(&admin->worker[worker], read_list, &look))
			break;
		for (uint32_t i = 0; i < look.n; i++)
			json_array_append_new(
			    objects, object_of((uint32_t)worker, &look.object[i], look.now));
		left -= look.n;
		worker += look.at == 0;
	}
	free(look.object);
	if (!left && worker < admin->workers)
		json_object_set_new(
		    out, "next", json_pack("{si si}", "worker", (int)worker, "slot", (int)look.at));
	return out;
}

static void read_clients(struct mn_worker *worker, void *arg)
{
	struct look *look = arg;

	lend_store_list_clients(worker->store, lend_now(worker->ep), &look->at, look->client);
}

static json_t *client_of(uint32_t worker, const struct lend_list_client *c)
{
	char process[33];

	hex(c->process, process);
	return json_pack("{ss si si sI si sI sI}", "process", process, "client", (int)c->number,
			 "worker", (int)worker, "holds", (json_int_t)c->holds, "spaces",
			 (int)c->spaces, "bytes", (json_int_t)c->bytes, "lease_ms",
			 (json_int_t)(c->lease / 1000000));
}

static int by_bytes(const void *a, const void *b)
{
	const struct lend_list_client *x = a, *y = b;

	return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

/* Clients of each worker, who keeps most first. */
static json_t *do_top(struct mn_admin *admin, const json_t *request)
{
	json_t *clients = json_array(), *out = json_pack("{so}", "clients", clients);
	const uint32_t n = admin->worker->clients + 1;
	uint64_t limit = field(request, "limit", 100);

	for (uint32_t w = 0; w < admin->workers; w++) {
		struct look look = {.client = calloc(n, sizeof(*look.client))};

		if (!look.client)
			break;
		do
			if (!mn_ask(&admin->worker[w], read_clients, &look))
				break;
		while (look.at);
		qsort(look.client, n, sizeof(*look.client), by_bytes);
		for (uint32_t i = 0; i < n && json_array_size(clients) < limit; i++)
			if (look.client[i].life)
				json_array_append_new(clients, client_of(w, &look.client[i]));
		free(look.client);
	}
	return out;
}

static void end_object(struct mn_worker *worker, void *arg)
{
	struct look *look = arg;

	look->found = lend_store_evict(worker->store, look->at, look->serial);
}

static void end_process(struct mn_worker *worker, void *arg)
{
	struct look *look = arg;
	struct lend_memstats after;

	lend_store_stats(worker->store, &look->stats);
	lend_store_hangup(worker->store, look->process);
	lend_store_stats(worker->store, &after);
	look->found |= after.hangups != look->stats.hangups;
}

static json_t *do_evict(struct mn_admin *admin, const json_t *request)
{
	const char *process = json_string_value(json_object_get(request, "process"));
	uint64_t worker = field(request, "worker", 0);
	struct look look = {.at = (uint32_t)field(request, "slot", 0),
			    .serial = field(request, "serial", 0)};

	if (process && !unhex(process, look.process))
		return error("process: give the 32 hex digits that top and ls print");
	if (!process && (!look.at || !look.serial || worker >= admin->workers))
		return error("say what to evict: worker, slot and serial as ls prints them, or a "
			     "process");
	for (uint32_t i = 0; process && i < admin->workers; i++)
		(void)mn_ask(&admin->worker[i], end_process, &look);
	if (!process)
		(void)mn_ask(&admin->worker[worker], end_object, &look);
	return json_pack("{sb}", "evicted", look.found);
}

static json_t *answer(struct mn_admin *admin, const char *line)
{
	static const struct {
		const char *name;
		json_t *(*run)(struct mn_admin *admin, const json_t *request);
	} verbs[] = {{"stat", do_stat}, {"ls", do_ls}, {"top", do_top}, {"evict", do_evict}};
	json_error_t why;
	json_t *request = json_loads(line, JSON_REJECT_DUPLICATES, &why), *out = NULL;
	const char *what = json_string_value(json_object_get(request, "do"));

	if (!request)
		return error("not a JSON object on one line");
	for (size_t i = 0; what && i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(verbs[i].name, what))
			out = verbs[i].run(admin, request);
	json_decref(request);
	return out ? out : error("do: give stat, ls, top or evict");
}

static bool send_all(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		text += n;
		len -= (size_t)n;
	}
	return true;
}

static bool reply(struct mn_admin *admin, int fd, const char *line)
{
	json_t *out = answer(admin, line);
	char *text = out ? json_dumps(out, JSON_COMPACT) : NULL;
	bool fine = text && send_all(fd, text, strlen(text)) && send_all(fd, "\n", 1);

	free(text);
	json_decref(out);
	return fine;
}

/* Something to read at fd; false: not in time, or it is time to go. */
static bool wait_for(struct mn_admin *admin, int fd, int ms)
{
	struct pollfd p[] = {{fd, POLLIN, 0}, {admin->stop, POLLIN, 0}};

	return poll(p, 2, ms) > 0 && !p[1].revents;
}

static void serve(struct mn_admin *admin, int fd)
{
	char line[LINE_MAX_LEN + 1];
	size_t len = 0;

	while (len < LINE_MAX_LEN && wait_for(admin, fd, SILENT_MS)) {
		ssize_t n = recv(fd, line + len, LINE_MAX_LEN - len, 0);
		char *end;

		if (n <= 0)
			return;
		len += (size_t)n;
		line[len] = 0;
		while ((end = strchr(line, '\n'))) {
			*end = 0;
			if (!reply(admin, fd, line))
				return;
			len -= (size_t)(end + 1 - line);
			memmove(line, end + 1, len + 1);
		}
	}
}

static bool is_ours(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

static void *work(void *arg)
{
	struct mn_admin *admin = arg;
	struct timeval patience = {1, 0};

	while (wait_for(admin, admin->door, -1)) {
		int fd = accept4(admin->door, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			continue;
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
		if (is_ours(fd))
			serve(admin, fd);
		close(fd);
	}
	return NULL;
}

/* A socket that nobody listens at is an earlier start's. */
static bool is_dead(const struct sockaddr_un *at)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool dead = fd >= 0 && connect(fd, (const struct sockaddr *)at, sizeof(*at)) < 0 &&
		    errno == ECONNREFUSED;

	if (fd >= 0)
		close(fd);
	return dead;
}

static int listen_at(struct mn_admin *admin, const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	mode_t mask;
	int rc;

	if (strlen(path) >= sizeof(at.sun_path))
		return lend_fail(EINVAL, "--admin %s: %zu characters at most", path,
				 sizeof(at.sun_path) - 1);
	strcpy(at.sun_path, path);
	strcpy(admin->path, path);
	admin->door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (admin->door < 0)
		return lend_fail(errno, "--admin %s: %s", path, strerror(errno));
	if (is_dead(&at))
		(void)unlink(path);
	mask = umask(0177);
	rc = bind(admin->door, (struct sockaddr *)&at, sizeof(at)) < 0 ? errno : 0;
	(void)umask(mask);
	if (rc)
		admin->path[0] = 0;
	if (rc || listen(admin->door, 8) < 0)
		return lend_fail(rc ? rc : errno,
				 "--admin %s: %s; give a path in a folder of this user, that no "
				 "other node has",
				 path, strerror(rc ? rc : errno));
	return 0;
}

int mn_admin_open(struct mn_worker *worker, uint32_t workers, const char *path,
		  struct mn_admin **out)
{
	struct mn_admin *admin = calloc(1, sizeof(*admin));
	int rc;

	if (!admin)
		return lend_fail(ENOMEM, "no memory for --admin");
	admin->worker = worker;
	admin->workers = workers;
	admin->door = -1;
	admin->stop = eventfd(0, EFD_CLOEXEC);
	rc = admin->stop < 0 ? lend_fail(errno, "--admin: %s", strerror(errno))
			     : listen_at(admin, path);
	if (rc == 0 && pthread_create(&admin->thread, NULL, work, admin))
		rc = lend_fail(EAGAIN, "--admin: no thread for it; raise the limit on them");
	if (rc < 0) {
		admin->thread = 0;
		mn_admin_close(admin);
	} else {
		*out = admin;
	}
	return rc;
}

void mn_admin_close(struct mn_admin *admin)
{
	if (!admin)
		return;
	if (admin->thread) {
		(void)eventfd_write(admin->stop, 1);
		(void)pthread_join(admin->thread, NULL);
	}
	if (admin->door >= 0)
		close(admin->door);
	if (admin->path[0])
		(void)unlink(admin->path);
	if (admin->stop >= 0)
		close(admin->stop);
	free(admin);
}
#else
int mn_admin_open(struct mn_worker *worker, uint32_t workers, const char *path,
		  struct mn_admin **out)
{
	(void)worker, (void)workers, (void)out;
	return lend_fail(
	    ENOSYS, "--admin %s: not in this build; install libjansson-dev and build again", path);
}

void mn_admin_close(struct mn_admin *admin)
{
	(void)admin;
}
#endif

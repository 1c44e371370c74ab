#include "mn/admin_commands.h"

#ifdef LEND_JANSSON
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lend/stats.h"
#include "mn/store/admin_list.h"
#include "mn/node_worker.h"

enum { LIST_MAX = 1000 };

/* One query to a worker, and its result. */
struct look {
	struct lend_memstats stats;
	uint32_t at, n, limit; /* position, entries so far and limit of a list */
	struct lend_list_object *object;
	struct lend_list_client *client;
	uint64_t serial;
	uint8_t process[16];
	bool found;
	lend_ns now;
};

static json_t *error_object(const char *text)
{
	return json_pack("{ss}", "error", text);
}

static void hex_text(const uint8_t bytes[16], char text[33])
{
	for (int i = 0; i < 16; i++)
		(void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

static bool parse_hex(const char *text, uint8_t bytes[16])
{
	unsigned byte;

	if (strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32)
		return false;
	for (int i = 0; i < 16; i++) {
		(void)sscanf(text + 2 * i, "%2x", &byte);
		bytes[i] = (uint8_t)byte;
	}
	return true;
}

static void read_stats(struct mn_worker *worker, void *arg)
{
	struct look *look = arg;
	struct lend_stats stats;

	lend_stats_get(worker->ep, &stats);
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

static json_t *do_stat(const struct mn_nodes *node, const json_t *request)
{
	json_t *workers = json_array(), *out = json_pack("{so}", "workers", workers);
	struct look look;

	(void)request;
	for (uint32_t i = 0; i < node->workers; i++)
		if (mn_query(&node->worker[i], read_stats, &look))
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

	hex_text(o->owner, process);
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

static uint64_t number_field(const json_t *request, const char *name, uint64_t without)
{
	const json_t *value = json_object_get(request, name);

	return json_is_integer(value) && json_integer_value(value) >= 0
		   ? (uint64_t)json_integer_value(value)
		   : without;
}

/* Lists objects from {worker, slot} on; "next" is where to continue. */
static json_t *do_ls(const struct mn_nodes *node, const json_t *request)
{
	uint64_t worker = number_field(request, "worker", 0),
		 limit = number_field(request, "limit", 100);
	json_t *objects = json_array(), *out = json_pack("{so}", "objects", objects);
	struct look look = {.at = (uint32_t)number_field(request, "slot", 0)};
	size_t left = limit < LIST_MAX ? limit : LIST_MAX;

	look.object = calloc(LIST_MAX, sizeof(*look.object));
	while (look.object && left && worker < node->workers) {
		look.limit = (uint32_t)left;
		if (!mn_query(&node->worker[worker], read_list, &look))
			break;
		for (uint32_t i = 0; i < look.n; i++)
			json_array_append_new(
			    objects, object_of((uint32_t)worker, &look.object[i], look.now));
		left -= look.n;
		worker += look.at == 0;
	}
	free(look.object);
	if (!left && worker < node->workers)
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

	hex_text(c->process, process);
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

/* Lists the clients of each worker, sorted by the bytes that they keep, most first. */
static json_t *do_top(const struct mn_nodes *node, const json_t *request)
{
	json_t *clients = json_array(), *out = json_pack("{so}", "clients", clients);
	const uint32_t n = node->worker->clients + 1;
	uint64_t limit = number_field(request, "limit", 100);

	for (uint32_t w = 0; w < node->workers; w++) {
		struct look look = {.client = calloc(n, sizeof(*look.client))};

		if (!look.client)
			break;
		do
			if (!mn_query(&node->worker[w], read_clients, &look))
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

	look->found |= lend_store_evict_process(worker->store, look->process);
}

static json_t *do_evict(const struct mn_nodes *node, const json_t *request)
{
	const char *process = json_string_value(json_object_get(request, "process"));
	uint64_t worker = number_field(request, "worker", 0);
	struct look look = {.at = (uint32_t)number_field(request, "slot", 0),
			    .serial = number_field(request, "serial", 0)};

	if (process && !parse_hex(process, look.process))
		return error_object("process: give the 32 hex digits that top and ls print");
	if (!process && (!look.at || !look.serial || worker >= node->workers))
		return error_object(
		    "evict what? give worker, slot and serial as ls prints them, or a process");
	for (uint32_t i = 0; process && i < node->workers; i++)
		(void)mn_query(&node->worker[i], end_process, &look);
	if (!process)
		(void)mn_query(&node->worker[worker], end_object, &look);
	return json_pack("{sb}", "evicted", look.found);
}

static json_t *answer_line(const struct mn_nodes *node, const char *line)
{
	static const struct {
		const char *name;
		json_t *(*run)(const struct mn_nodes *node, const json_t *request);
	} verbs[] = {{"stat", do_stat}, {"ls", do_ls}, {"top", do_top}, {"evict", do_evict}};
	json_error_t why;
	json_t *request = json_loads(line, JSON_REJECT_DUPLICATES, &why), *out = NULL;
	const char *what = json_string_value(json_object_get(request, "do"));

	if (!request)
		return error_object("not a JSON object on one line");
	for (size_t i = 0; what && i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(verbs[i].name, what))
			out = verbs[i].run(node, request);
	json_decref(request);
	return out ? out : error_object("do: give stat, ls, top or evict");
}

char *mn_admin_answer(const struct mn_nodes *node, const char *line)
{
	json_t *out = answer_line(node, line);
	char *text = out ? json_dumps(out, JSON_COMPACT) : NULL;

	json_decref(out);
	return text;
}
#endif

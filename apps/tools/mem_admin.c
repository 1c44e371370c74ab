/* mem_admin - lend mem ls, top and evict: list and end the objects and clients of a memory node,
 * over its admin socket.
 * Layer: apps. Threads: one. */
#include "apps/tools/mem_admin.h"

#include "apps/common/options.h"

#ifdef LEND_JANSSON
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct args {
	const char *path, *what, *admin, *node;
	uint64_t limit;
	bool json;
};

static const struct lend_option options[] = {
    OPT_WORD(struct args, path),
    OPT_WORD(struct args, what),
    OPT_ALIAS(struct args, admin, "admin"),
    OPT_ALIAS(struct args, node, "node"),
    OPT_NUMBER(struct args, limit, "limit", 1, 1000000, "At most so many rows (default 100)"),
    OPT_FLAG(struct args, json, "json", "The node's answer as it is: one JSON object on one line"),
    {.name = NULL}};

/* Checks the arguments. With --admin PATH the only word is what to evict. */
static void check(struct args *args)
{
	if (args->admin) {
		args->what = args->path;
		args->path = args->admin;
	}
	if (args->node || (args->path && args->path[0] != '/' && strchr(args->path, ':')))
		app_bad("%s: a node's address; ls, top and evict ask its admin socket: give the "
			"PATH that lend-mn --admin PATH was given",
			args->node ? args->node : args->path);
	if (!args->path)
		app_bad("which node? give the PATH that lend-mn --admin PATH was given");
}

static FILE *open_node(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	FILE *node;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(at.sun_path))
		app_bad("%s: longer than a socket's path can be", path);
	strcpy(at.sun_path, path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		app_die("%s: %s; is lend-mn --admin %s running, as this user?", path,
			strerror(errno), path);
	node = fdopen(fd, "r+");
	if (!node)
		app_die("no memory for a stream; end some processes");
	return node;
}

/* Sends a request of one line and reads a reply of one line; app_bad() with the node's text when it
 * replies with an error. */
static json_t *send_command(FILE *node, json_t *request)
{
	char *say = json_dumps(request, JSON_COMPACT), *line = NULL;
	const char *why;
	size_t cap = 0;
	json_t *out;

	json_decref(request);
	if (!say || fprintf(node, "%s\n", say) < 0 || fflush(node) ||
	    getline(&line, &cap, node) <= 0)
		app_die("the node does not answer; ask again");
	out = json_loads(line, 0, NULL);
	free(say);
	free(line);
	if (!out)
		app_die("the node's answer makes no sense; is it of another version?");
	why = json_string_value(json_object_get(out, "error"));
	if (why)
		app_bad("%s", why);
	return out;
}

static json_int_t number_field(const json_t *row, const char *name)
{
	return json_integer_value(json_object_get(row, name));
}

static const char *text_field(const json_t *row, const char *name)
{
	const char *value = json_string_value(json_object_get(row, name));

	return value ? value : "";
}

static void print_object(const json_t *row)
{
	char id[80];

	(void)snprintf(id, sizeof(id), "%d:%d:%" JSON_INTEGER_FORMAT,
		       (int)number_field(row, "worker"), (int)number_field(row, "slot"),
		       number_field(row, "serial"));
	if (!strcmp(text_field(row, "kind"), "space"))
		printf("%-20s space %14" JSON_INTEGER_FORMAT "  of %s client %d\n", id,
		       number_field(row, "bytes"), text_field(row, "process"),
		       (int)number_field(row, "client"));
	else
		printf("%-20s ref   %14" JSON_INTEGER_FORMAT "  %d holds, %d grants\n", id,
		       number_field(row, "bytes"), (int)number_field(row, "holds"),
		       (int)number_field(row, "grants"));
}

/* Lists the objects. The node returns at most a thousand per request. */
static void list_objects(FILE *node, const struct args *args)
{
	uint64_t left = args->limit;
	json_t *next = NULL, *all = json_array(), *row;
	size_t i;

	do {
		json_t *request = json_pack("{ss sI}", "do", "ls", "limit", (json_int_t)left), *out;

		json_object_update(request, next);
		json_decref(next);
		out = send_command(node, request);
		json_array_extend(all, json_object_get(out, "objects"));
		next = json_incref(json_object_get(out, "next"));
		json_decref(out);
		left = args->limit > json_array_size(all) ? args->limit - json_array_size(all) : 0;
	} while (next && left);
	if (args->json) {
		json_t *out = json_pack("{sO sb}", "objects", all, "more", next != NULL);

		json_dumpf(out, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(out);
	} else {
		printf("%-20s %-5s %14s\n", "worker:slot:serial", "kind", "bytes");
		json_array_foreach(all, i, row) print_object(row);
		if (next)
			printf("and more: raise --limit\n");
	}
	json_decref(next);
	json_decref(all);
}

static void print_top(FILE *node, const struct args *args)
{
	json_t *out =
	    send_command(node, json_pack("{ss sI}", "do", "top", "limit", (json_int_t)args->limit));
	json_t *row;
	size_t i;

	if (args->json) {
		json_dumpf(out, stdout, JSON_COMPACT);
		putchar('\n');
	} else {
		printf("%-33s %6s %6s %9s %7s %15s %9s\n", "process", "client", "worker", "holds",
		       "spaces", "bytes", "lease ms");
		json_array_foreach(json_object_get(out, "clients"), i, row)
		    printf("%-33s %6d %6d %9" JSON_INTEGER_FORMAT " %7d %15" JSON_INTEGER_FORMAT
			   " %9" JSON_INTEGER_FORMAT "\n",
			   text_field(row, "process"), (int)number_field(row, "client"),
			   (int)number_field(row, "worker"), number_field(row, "holds"),
			   (int)number_field(row, "spaces"), number_field(row, "bytes"),
			   number_field(row, "lease_ms"));
	}
	json_decref(out);
}

static void evict_object(FILE *node, const struct args *args)
{
	unsigned worker, slot;
	unsigned long long serial;
	json_t *request, *out;
	bool gone;

	if (!args->what)
		app_bad("evict what? give WORKER:SLOT:SERIAL as ls prints it, or a process as top "
			"prints it");
	if (sscanf(args->what, "%u:%u:%llu", &worker, &slot, &serial) == 3)
		request = json_pack("{ss si si sI}", "do", "evict", "worker", (int)worker, "slot",
				    (int)slot, "serial", (json_int_t)serial);
	else
		request = json_pack("{ss ss}", "do", "evict", "process", args->what);
	out = send_command(node, request);
	gone = json_is_true(json_object_get(out, "evicted"));
	if (args->json) {
		json_dumpf(out, stdout, JSON_COMPACT);
		putchar('\n');
	} else if (gone) {
		printf("evicted %s\n", args->what);
	}
	json_decref(out);
	if (!gone)
		app_die("%s: not there; lend mem ls and top print what is", args->what);
}

int app_mem_admin_stat(const char *path, bool json)
{
	FILE *node = open_node(path);
	json_t *out = send_command(node, json_pack("{ss}", "do", "stat")), *worker, *value;
	const char *name;
	size_t i;

	if (json) {
		json_dumpf(out, stdout, JSON_COMPACT);
		putchar('\n');
	} else {
		json_array_foreach(json_object_get(out, "workers"), i, worker)
		{
			printf("worker %zu\n", i);
			json_object_foreach(worker, name, value)
			    printf("  %-24s %16" JSON_INTEGER_FORMAT "\n", name,
				   json_integer_value(value));
		}
	}
	json_decref(out);
	fclose(node);
	return APP_EXIT_OK;
}

int app_mem_admin(int argc, char **argv)
{
	static const struct lend_syntax syntax = {
	    .option = options,
	    .words = "ADMIN-SOCKET [OBJECT|PROCESS]",
	    .doc = "What a memory node holds, by object (ls) or by client (top), and ending it "
		   "(evict).\v"
		   "  lend mem ls /run/lend/mn0.admin --limit 20\n"
		   "  lend mem top /run/lend/mn0.admin --json\n"
		   "  lend mem evict /run/lend/mn0.admin 0:17:4711\n\n"
		   "Uses of an evicted object end NOT_FOUND; an evicted process says hello again."};
	struct args args = {.limit = 100};
	const char *verb = argv[0];
	FILE *node;

	app_options_read(&syntax, argc, argv, &args);
	check(&args);
	node = open_node(args.path);
	if (!strcmp(verb, "ls"))
		list_objects(node, &args);
	else if (!strcmp(verb, "top"))
		print_top(node, &args);
	else
		evict_object(node, &args);
	fclose(node);
	return APP_EXIT_OK;
}
#else

int app_mem_admin(int argc, char **argv)
{
	(void)argc, (void)argv;
	app_bad("not in this build: install libjansson-dev and build again");
}

int app_mem_admin_stat(const char *path, bool json)
{
	(void)path, (void)json;
	app_bad("not in this build: install libjansson-dev and build again");
}
#endif

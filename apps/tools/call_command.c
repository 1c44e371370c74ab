/* call_command - one call of one method: sends bytes or a message, prints the reply.
 * Layer: apps. Threads: one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/commands.h"
#include "apps/common/closed_loop.h"
#include "apps/common/options.h"
#include "apps/tools/call_metadata.h"
#include "apps/tools/call_reflect.h"
#include "apps/tools/call_reply.h"
#include "apps/tools/proto_module.h"
#include "apps/tools/reach.h"

enum { READ = 1 << 16, PATH_CAP = 4096, LINE_CAP = 256 };
#define MESSAGE_MAX (UINT32_C(1) << 30)

struct args {
	struct call_reply reply;
	const char *data, *file, *folders;
	struct lend_metadata *metadata;
	lend_ns timeout;
	bool raw;
};

static void take_header(const struct lend_option *o, void *field, char *value)
{
	call_metadata_take(field, o->name, value);
}

static const struct lend_option options[] = {
    OPT_WORD(struct args, reply.address),
    OPT_WORD(struct args, reply.method),
    OPT_TEXT(struct args, data, "data", "DATA",
	     "The request: a text, @FILE, or - for standard input"),
    OPT_TEXT(
	struct args, file, "proto", "FILE",
	"The .proto file of METHOD: DATA and the reply are JSON; without METHOD, lists those of "
	"the file (the server's reflection service describes them)"),
    OPT_TEXT(struct args, folders, "proto-path", "DIR",
	     "Folders of FILE and its imports, separated by colons (the folder of FILE)"),
    {OPT_FIELD(struct args, metadata), .name = "header", .kind = OPT_IS_TAKEN, .take = take_header,
     .value = "NAME:VALUE",
     .help = "Metadata of the call, any number of times; base64 for a NAME "
	     "that ends in -bin"},
    OPT_FLAG(struct args, raw, "raw",
	     "DATA and the reply are bytes, also if the server describes METHOD"),
    OPT_FLAG(struct args, reply.hex, "hex", "Print the reply as a hex dump"),
    OPT_TIME(struct args, timeout, "timeout", "At most so long for each of connect and call: 5s"),
    OPT_FLAG(struct args, reply.json, "json",
	     "One JSON object on one line, also of a call that failed"),
    {.name = NULL}};

static uint32_t method_of(const char *text)
{
	char *end = NULL;
	unsigned long long number;

	errno = 0;
	number = strtoull(text, &end, 0);
	if (text[0] < '0' || text[0] > '9' || *end || errno || number > UINT32_MAX)
		app_bad("%s: no method; give its number, such as 1, or its name, such as "
			"/shop.Cart/Add",
			text);
	return (uint32_t)number;
}

static char *read_all(FILE *file, const char *where, size_t *len)
{
	char *bytes = NULL;
	size_t cap = 0;

	if (!file)
		app_die("%s: %s; name a file that can be read", where, strerror(errno));
	for (*len = 0; !feof(file);) {
		if (*len + READ > cap) {
			cap = 2 * cap + READ;
			bytes = realloc(bytes, cap);
		}
		if (!bytes || *len > MESSAGE_MAX)
			app_die("%s: no memory for it, or longer than a message of 1 GiB", where);
		*len += fread(bytes + *len, 1, READ, file);
		if (ferror(file))
			app_die("%s: %s; name a file that can be read", where, strerror(errno));
	}
	return bytes;
}

/* Returns the bytes of --data: the text itself, @FILE or - for standard input. */
static char *read_data(const char *data, size_t *len)
{
	if (!strcmp(data, "-"))
		return read_all(stdin, "standard input", len);
	if (data[0] == '@')
		return read_all(fopen(data + 1, "rbe"), data + 1, len);
	*len = strlen(data);
	return strdup(data);
}

/* Makes the message of JSON in its place. */
static void encode_json(const struct args *args, char **bytes, size_t *len)
{
	const char *message, *why = args->reply.proto->encode(*bytes, *len, &message, len);

	if (why)
		app_bad("--data: %s", why);
	free(*bytes);
	*bytes = malloc(*len + 1);
	if (*bytes)
		memcpy(*bytes, message, *len);
}

static struct lend_buf *make_request(struct lend_ep *ep, const struct args *args)
{
	struct lend_buf *buf;
	size_t len = 0;
	char *bytes;

	if (!args->data)
		return NULL;
	bytes = read_data(args->data, &len);
	if (bytes && args->reply.proto)
		encode_json(args, &bytes, &len);
	buf = bytes ? lend_buf_wrap(ep, bytes, (uint32_t)len, free, bytes) : NULL;
	if (!buf)
		app_die("no memory for %zu bytes; send less", len);
	return buf;
}

/* Reads the .proto file, and lists its methods or finds the one to call. */
static void load_proto(struct args *args)
{
	const struct app_proto *proto = app_proto_load();
	char folders[3 * PATH_CAP], include[PATH_CAP];
	const char *slash = strrchr(args->file, '/'), *why;
	int len = slash ? (int)(slash - args->file) + 1 : 0;

	if (!args->folders && access(args->file, R_OK) < 0)
		app_bad("--proto %s: %s; name a file that can be read", args->file,
			strerror(errno));
	app_proto_folder(include, sizeof(include));
	if (args->folders)
		(void)snprintf(folders, sizeof(folders), "%s:%s", args->folders, include);
	else
		(void)snprintf(folders, sizeof(folders), "%.*s.:%s", len, args->file, include);
	why = proto->load(args->file, folders);
	if (!why && !args->reply.method) {
		fputs(proto->list(), stdout);
		exit(APP_EXIT_OK);
	}
	if (!why)
		why = proto->choose(args->reply.method);
	if (why)
		app_bad("%s", why);
	args->reply.proto = proto;
}

/* Uses the server's description of METHOD, if there is one; without METHOD, lists all. */
static void ask_server(struct args *args, struct lend_ep *ep, lend_session session)
{
	const struct app_proto *proto = app_proto_load();
	const char *method = args->reply.method, *end = method ? strrchr(method, '/') : NULL, *why;
	char service[LINE_CAP] = "";

	if (method)
		(void)snprintf(service, sizeof(service), "%.*s",
			       (int)(end - method - (end > method)), method + 1);
	why = call_reflect(ep, session, proto, service, args->timeout);
	if (!why && !method) {
		fputs(proto->list(), stdout);
		exit(APP_EXIT_OK);
	}
	if (!why) {
		why = proto->choose(method);
		if (why)
			app_bad("%s", why);
		args->reply.proto = proto;
	} else if (!method || (args->data && args->data[0] == '{' &&
			       !strncmp(args->reply.address, "http2:", 6))) {
		app_die("%s: %s; give --proto FILE%s", args->reply.address, why,
			method ? ", or --raw to send DATA as it is" : "");
	}
}

static const char doc[] =
    "Calls one method of a server and prints the reply.\v"
    "METHOD is a number, or a name that begins with a slash. The reply's bytes go to standard "
    "output as they are, its metadata to standard error. If the server describes METHOD by "
    "reflection, or with --proto, DATA is JSON in protobuf's mapping, {} unless given, and so is "
    "the "
    "reply. Without METHOD, lists the methods that the server describes. protoc reads FILE; "
    "lend/lend.proto is found.\n\n"
    "Fields of --json: status and status_name, gRPC's number and name; message, which explains it; "
    "path, the transport; ran, whether the handler did; us; bytes; initial and trailing, the "
    "metadata; reply, or reply_hex if it is not ASCII.\n\n"
    "Exit status: 0 the reply is OK; 1 no server, or the call ended with another status, which the "
    "line on standard error names with the fix; 2 the command line makes no sense.\n\n"
    "  lend call shm:hello 1 --data world\n"
    "  lend call shm:named /hello.Greeter/Greet --header user:Ada\n"
    "  lend call http2:127.0.0.1:50051\n"
    "  lend call http2:127.0.0.1:50051 /greeter.Greeter/Greet --data '{\"name\": \"Ada\"}'\n"
    "  lend call --proto greeter.proto\n"
    "  lend call shm:greeter /greeter.Greeter/Greet --proto greeter.proto --data '{\"name\": "
    "\"Ada\"}'\n"
    "  lend call udp:10.0.0.2:31850 7 --data @request.bin --hex\n"
    "  date | lend call shm:hello 1 --data - --timeout 200ms --json";

/* Sets the method and metadata of the call. */
static void name_method(const struct args *args, struct lend_call *call,
			struct lend_call_head *head)
{
	head->metadata = args->metadata;
	if (args->reply.method[0] == '/')
		head->name = args->reply.method;
	else
		call->method = method_of(args->reply.method);
	if (head->name || head->metadata)
		call->head = head;
}

int app_call(int argc, char **argv)
{
	static const struct lend_syntax syntax = {
	    .option = options, .words = "ADDR METHOD", .doc = doc};
	struct lend_config config = LEND_CONFIG_INIT;
	struct args args = {.timeout = UINT64_C(5000000000)};
	struct lend_call call = {.method = 0};
	struct lend_call_head head = {.name = NULL};
	lend_session session;
	struct lend_ep *ep;
	lend_ns began;
	int rc;

	app_options_read(&syntax, argc, argv, &args);
	if (args.file)
		load_proto(&args);
	if (!args.reply.address || (args.file && !args.reply.method))
		app_bad("call what? give an address and a method: lend call shm:hello 1 --data "
			"TEXT");
	if (args.reply.method)
		name_method(&args, &call, &head);
	call.timeout = args.timeout;
	config.message_max = MESSAGE_MAX;
	if (lend_open(&config, &ep) < 0)
		app_die("%s", lend_why());
	(void)app_reach(ep, args.reply.address, args.timeout, &session);
	if (!args.file && !args.raw && (!args.reply.method || (head.name && app_proto_is_built())))
		ask_server(&args, ep, session);
	call.request = make_request(ep, &args);
	began = lend_now(ep);
	if (lend_call_sync(ep, session, &call) < 0)
		app_die("%s: %s", args.reply.address, lend_why());
	rc = call_reply_show(&args.reply, ep, &call, lend_now(ep) - began);
	lend_buf_give(ep, call.request);
	lend_buf_give(ep, call.reply);
	lend_close(ep);
	lend_metadata_free(args.metadata);
	return rc;
}

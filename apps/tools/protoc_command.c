/* protoc_command - runs protoc with Lend's includes and, for --c_out, with this program as its
 * plugin, which makes protoc-gen-c accept proto3's optional fields.
 * Layer: apps. Threads: one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/commands.h"
#include "apps/tools/proto_module.h"

enum { PATH_CAP = 4096, MORE = 5 };

static const char doc[] =
    "Runs protoc with a plugin for --c_out that makes C of .proto files, also of those with "
    "optional fields of proto3.\v"
    "All arguments are protoc's; protoc --help lists them. The plugin runs protoc-gen-c of "
    "protobuf-c. An optional field F of proto3 is a oneof of its own: the field _f_case of the "
    "structure is 0 or the number of F. lend/lend.proto is found without -I.\n\n"
    "Exit status: protoc's; 2 if it cannot run.\n\n"
    "  lend protoc --c_out=. greeter.proto\n"
    "  lend protoc -Iprotos --c_out=made --cpp_out=made protos/shop/cart.proto";

static bool names_folder(const char *word)
{
	return !strncmp(word, "-I", 2) || !strncmp(word, "--proto_path", 12);
}

int app_protoc(int argc, char **argv)
{
	static const struct lend_syntax syntax = {.words = "ARGUMENT...", .doc = doc};
	static char here[] = "-I.";
	char folder[PATH_CAP], include[PATH_CAP + 2], self[PATH_CAP], plugin[PATH_CAP + 32];
	char **words = calloc((size_t)argc + MORE, sizeof(*words));
	bool named = false;
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int n = 0;

	if (argc == 2 && !strcmp(argv[1], "--help"))
		lend_options_read(&syntax, NULL, argc, argv, &named);
	if (argc < 2)
		app_bad("compile what? give protoc's arguments: lend protoc --c_out=. FILE.proto");
	if (!words || len < 0)
		app_die("no memory, or no /proc; end some processes, or mount /proc");
	self[len] = 0;
	app_proto_folder(folder, sizeof(folder));
	(void)app_proto_load(); /* reports here that there is none */
	(void)snprintf(plugin, sizeof(plugin), "--plugin=protoc-gen-c=%s", self);
	(void)snprintf(include, sizeof(include), "-I%s", folder);
	words[n++] = argv[0];
	words[n++] = plugin;
	for (int i = 1; i < argc; i++) {
		words[n++] = argv[i];
		named |= names_folder(argv[i]);
	}
	if (!named)
		words[n++] = here;
	words[n++] = include;
	if (setenv(APP_PROTOC_PLUGIN, "1", 1) == 0)
		execvp("protoc", words);
	app_bad("protoc: %s; apt install protobuf-compiler protobuf-c-compiler", strerror(errno));
}

int app_protoc_plugin(void)
{
	lend_cli_name_set("lend ", "protoc");
	return app_proto_load()->generate();
}

/* serialize - starts the program of lend bench serialize, which has the libraries that it compares
 * inside, so that no other command loads them. Layer: apps. Threads: one. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "apps/commands.h"
#include "apps/common/spawn.h"

int app_serialize(int argc, char **argv)
{
	char path[4096];

	(void)argc;
	if (!app_program_find("lend-serialize", LEND_PROGRAM_FOLDER, path, sizeof(path)))
		app_bad("not in this build: install libprotobuf-c-dev and protobuf-c-compiler and "
			"build again");
	execv(path, argv);
	app_bad("%s: %s", path, strerror(errno));
}

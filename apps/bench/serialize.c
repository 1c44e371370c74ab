/* serialize - starts the program of lend bench serialize, which has the libraries that it compares
 * inside, so that no other command loads them. Layer: apps. Threads: one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apps/commands.h"

int app_serialize(int argc, char **argv)
{
	static const char *const places[] = {"", LEND_SERIALIZE_FOLDER};
	char self[3072], path[4096];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	(void)argc;
	self[len < 0 ? 0 : len] = 0;
	*(strrchr(self, '/') ? strrchr(self, '/') + 1 : self) = 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s%slend-serialize", self, places[i]);
		execv(path, argv);
	}
	app_bad("%s", errno == ENOENT ? "not in this build: install libprotobuf-c-dev and "
					"protobuf-c-compiler and build again"
				      : strerror(errno));
}

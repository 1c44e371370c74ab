/* own_keys - a file of keys in the build folder, for tests: a test program that has this file, and
 * the programs that it starts, never touch the user's own, also when it is run by hand. */
#include <stdlib.h>

__attribute__((constructor)) static void use_own_keys(void)
{
	setenv("XDG_CONFIG_HOME", LEND_BUILD_DIR "/config", 1);
	setenv("LEND_MODULE_DIR", LEND_BUILD_DIR, 0);
	unsetenv("LEND_KEYS");
	unsetenv("LEND_SECRET");
	if (TEST_SEALS)
		unsetenv("LEND_LEVEL");
	else
		setenv("LEND_LEVEL", "none", 1);
}

/* config_file - a YAML file with the options of the command line, one per line.
 * Layer: mn. Threads: the main one. */
#ifndef MN_CONFIG_FILE_H
#define MN_CONFIG_FILE_H

#include <stdint.h>

#include "cli/option_table.h"

/* Reads the file and calls apply() for each option in it, with the option's index in options (which
 * end with a zero entry), its value ("" for an option without one) and its line. Options named in
 * skip are left out. An invalid file ends the process with one line on standard error. Values are
 * never freed. */
void mn_config_file(const char *path, const struct lend_option *options, const char *skip,
		    void (*apply)(uint32_t option, char *value, unsigned line, void *arg),
		    void *arg);

#endif

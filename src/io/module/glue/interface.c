/* interface - the interface that a module was built with, for lend_module_find(). Every module is
 * built with this file. Layer: io. */
#include "io/module/module.h"

#include <module_interface.h> /* made by CMake */

LEND_IO_EXPORT extern const char lend_module_interface[];
const char lend_module_interface[] = LEND_MODULE_INTERFACE;

# Installs files that name installed paths, filled with the prefix that `cmake --install --prefix` was given.
# usage: lend_install_filled(DIRECTORY TEMPLATE... [RENAME NAME] [CONFIGURATION]), DIRECTORY relative to the prefix.
# CONFIGURATION: relative to the configuration's directory, and an existing file is left unchanged.
# @LEND_BINDIR@, @LEND_SYSCONFDIR@ and @LEND_DATADIR@ in a template are replaced by full paths.
set(lend_fill_script ${CMAKE_CURRENT_LIST_DIR}/install_fill.cmake)
function(lend_install_filled directory)
	cmake_parse_arguments(PARSE_ARGV 1 fill "CONFIGURATION" "RENAME" "")
	foreach(template IN LISTS fill_UNPARSED_ARGUMENTS)
		cmake_path(ABSOLUTE_PATH template BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
		cmake_path(GET template FILENAME name)
		if(fill_RENAME)
			set(name ${fill_RENAME})
		endif()
		install(CODE "
			set(lend_dirs \"${CMAKE_INSTALL_BINDIR}\" \"${CMAKE_INSTALL_SYSCONFDIR}\" \"${CMAKE_INSTALL_DATADIR}\")
			set(lend_template \"${template}\")
			set(lend_to \"${directory}/${name}\")
			set(lend_is_configuration ${fill_CONFIGURATION})
			include(\"${lend_fill_script}\")")
	endforeach()
endfunction()

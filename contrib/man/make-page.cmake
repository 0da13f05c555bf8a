# cmake -DPROGRAM=mcpd -DVERSION=x -DIN=page.in -DOUT=page -P make-page.cmake: puts the tables of `mcpd --print-config-man` where
# the page says @TABLES@.
execute_process(COMMAND ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0 ${PROGRAM} --print-config-man
	OUTPUT_VARIABLE TABLES COMMAND_ERROR_IS_FATAL ANY)
set(MCPD_VERSION ${VERSION})
configure_file(${IN} ${OUT} @ONLY)

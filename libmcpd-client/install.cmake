# What users of the library get: library, header, pkg-config file, and a CMake package with the target mcpd::client.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mcpd-client)
set(template_dir ${PROJECT_SOURCE_DIR}/libmcpd-client)
set(made_dir ${PROJECT_BINARY_DIR}/libmcpd-client)

set_target_properties(mcpd-client PROPERTIES EXPORT_NAME client PUBLIC_HEADER ${template_dir}/include/mcpd-client.h)
install(TARGETS mcpd-client EXPORT mcpd-client
	LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
	PUBLIC_HEADER DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT mcpd-client FILE mcpd-client-targets.cmake NAMESPACE mcpd:: DESTINATION ${package_dir})
configure_package_config_file(${template_dir}/mcpd-client-config.cmake.in ${made_dir}/mcpd-client-config.cmake
	INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${made_dir}/mcpd-client-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${made_dir}/mcpd-client-config.cmake ${made_dir}/mcpd-client-config-version.cmake DESTINATION ${package_dir})
# The pkg-config file finds its prefix from where it lies, so that an installation can be moved, or made with another --prefix.
file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${template_dir}/mcpd-client.pc.in ${made_dir}/mcpd-client.pc @ONLY)
install(FILES ${made_dir}/mcpd-client.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

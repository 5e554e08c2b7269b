# find_package(flashtile) gives the target flashtile::flashtile.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/flashtileTargets.cmake)

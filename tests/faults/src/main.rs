//! `orchestra-faults`: simulates many seeds, or one with its trace.

fn main() -> std::process::ExitCode {
    orchestra_fault_tests::command::main()
}

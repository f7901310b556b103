# An attention kernel as a command: program.sh STICKYBIT WHAT IN OUT
case $2 in
  good) exec "$1" attention "$3" --schedule fa3 --backward -o "$4" ;;
  nothing) exit 0 ;;
  shape) cp "$3" "$4" ;;
  status) exit 5 ;;
  hang) sleep 60 ;;
  fault) kill -SEGV $$ ;;
  unsupported) exit 77 ;;
esac

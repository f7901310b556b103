# An attention kernel as a command that stays: server.sh STICKYBIT WHAT. The first call is answered, the second has what is asked for.
calls=0
echo ready
while read -r call results gradients; do
  calls=$((calls + 1))
  if [ "$2" != good ] && [ $calls -gt 1 ]; then
    case $2 in
      fault) kill -SEGV $$ ;;
      exit) echo "these are my last words" >&2; exit 3 ;;
      hang) sleep 60 ;;
      nothing) echo ok; continue ;;
      error) echo "error something else"; continue ;;
      cuda) echo "error CUDA error: an illegal memory access was encountered"; exit 1 ;;
      unsupported) echo unsupported; continue ;;
    esac
  fi
  "$1" attention "$call" --schedule fa3 --backward -o "$results"
  echo "a line that is no answer"
  echo ok
done
